#include "theory/gaussian_kernel.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/require.h"

namespace addnorm::theory {
namespace {

GaussianKernel kernel_of_erf(double q, double c) {
  const double length = 1 + 2 * q;
  return {2 / std::numbers::pi * std::asin(2 * c / length),
          4 / std::numbers::pi / std::sqrt(length * length - 4 * c * c)};
}

/// The trapezoidal rule over z₁ and z₂ of N(0, 1), where u = √q·z₁ and v = √q·(r·z₁ + √(1 −
/// r²)·z₂). Its error falls as exp(−π²/(step·√q)), because of the distance of tanh's nearest pole
/// from the real line.
GaussianKernel kernel_of_tanh(double q, double c) {
  constexpr double kStep = 0.125;
  constexpr int kSteps = 48;  // to 6 standard deviations
  const double root = std::sqrt(q), r = q > 0 ? std::clamp(c / q, -1.0, 1.0) : 0;
  const double across = std::sqrt(1 - r * r);
  GaussianKernel sum;
  double weights = 0;
  const auto add = [&](double weight, double u, double v) {
    const double t = std::tanh(u), s = std::tanh(v);
    weights += weight;
    sum.value += weight * t * s;
    sum.slope += weight * (1 - t * t) * (1 - s * s);
  };
  for (int i = -kSteps; i <= kSteps; ++i) {
    const double z = i * kStep, weight = std::exp(-z * z / 2);
    if (across == 0) {
      add(weight, root * z, root * r * z);
      continue;
    }
    for (int j = -kSteps; j <= kSteps; ++j) {
      const double other = j * kStep;
      add(weight * std::exp(-other * other / 2), root * z, root * (r * z + across * other));
    }
  }
  return {sum.value / weights, sum.slope / weights};
}

}  // namespace

GaussianKernel gaussian_kernel(NormKind kind, double q, double c) {
  require(squashes(kind), "gaussian_kernel: the kind is {}, must be dyt or derf", to_string(kind));
  return kind == NormKind::kDyT ? kernel_of_tanh(q, c) : kernel_of_erf(q, c);
}

}  // namespace addnorm::theory
