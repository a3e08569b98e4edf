#include "theory/gaussian_kernel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "addnorm/error.h"
#include "addnorm/torch_generator.h"

namespace addnorm::theory {
namespace {

constexpr NormKind kKinds[] = {NormKind::kDyT, NormKind::kDerf};

TEST(GaussianKernel, IsTheMeanOfManyDraws) {
  constexpr std::size_t kDraws = 400'000;
  std::vector<double> z(2 * kDraws);
  TorchGenerator generator(1);
  generator.fill_normal<double>(z, 0, 1);
  for (const NormKind kind : kKinds) {
    for (const double q : {0.25, 4.0}) {
      for (const double r : {-0.5, 0.3, 1.0}) {
        GaussianKernel mean;
        for (std::size_t i = 0; i < kDraws; ++i) {
          const double u = std::sqrt(q) * z[2 * i];
          const double v = std::sqrt(q) * (r * z[2 * i] + std::sqrt(1 - r * r) * z[2 * i + 1]);
          const bool tanh = kind == NormKind::kDyT;
          const auto value = [&](double x) { return tanh ? std::tanh(x) : std::erf(x); };
          const auto slope = [&](double x) {
            return tanh ? 1 / std::pow(std::cosh(x), 2)
                        : 2 * std::numbers::inv_sqrtpi * std::exp(-x * x);
          };
          mean.value += value(u) * value(v) / kDraws;
          mean.slope += slope(u) * slope(v) / kDraws;
        }
        const GaussianKernel kernel = gaussian_kernel(kind, q, r * q);
        EXPECT_NEAR(kernel.value, mean.value, 0.005) << to_string(kind) << ' ' << q << ' ' << r;
        EXPECT_NEAR(kernel.slope, mean.slope, 0.005) << to_string(kind) << ' ' << q << ' ' << r;
      }
    }
  }
}

/// d/dc E[φ(u)·φ(v)] = E[φ′(u)·φ′(v)] (Price 1958): a relation of the two numbers that neither
/// formula uses.
TEST(GaussianKernel, HasTheSlopeOfPricesTheorem) {
  constexpr double kStep = 1e-4;
  for (const NormKind kind : kKinds) {
    for (const double q : {0.1, 1.0, 10.0, 25.0}) {
      const double c = 0.4 * q;
      const double up = gaussian_kernel(kind, q, c + kStep).value;
      const double down = gaussian_kernel(kind, q, c - kStep).value;
      EXPECT_NEAR((up - down) / (2 * kStep) / gaussian_kernel(kind, q, c).slope, 1, 1e-5) << q;
    }
  }
}

TEST(GaussianKernel, FallsAsOneOverTheDeviation) {
  constexpr double kLarge = 36;  // ∫φ′² over the density at 0, 1/√(2πq)
  const double density = 1 / std::sqrt(2 * std::numbers::pi * kLarge);
  EXPECT_NEAR(gaussian_kernel(NormKind::kDyT, kLarge, kLarge).slope / density, 4.0 / 3, 0.02);
  EXPECT_NEAR(gaussian_kernel(NormKind::kDerf, kLarge, kLarge).slope / density,
              4 / std::sqrt(2 * std::numbers::pi), 0.02);
}

TEST(GaussianKernel, IsOfKindsThatSquash) {
  EXPECT_THROW(gaussian_kernel(NormKind::kLayer, 1, 1), Error);
}

}  // namespace
}  // namespace addnorm::theory
