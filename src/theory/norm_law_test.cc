#include "theory/norm_law.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "addnorm/float16.h"

namespace addnorm::theory {
namespace {

using Vector = std::vector<double>;

double mean(const Vector& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// LayerNorm by its definition.
Vector normalize(Vector x, double epsilon) {
  const double center = mean(x);
  double variance = 0;
  for (double& v : x) {
    v -= center;
    variance += v * v / static_cast<double>(x.size());
  }
  for (double& v : x) v /= std::sqrt(variance + epsilon);
  return x;
}

double dot(const Vector& a, const Vector& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}
double cosine(const Vector& a, const Vector& b) {
  return dot(a, b) / std::sqrt(dot(a, a) * dot(b, b));
}

template <typename Distribution>
Vector draw(std::size_t n, Distribution distribution, std::mt19937_64& engine) {
  Vector values(n);
  for (double& v : values) v = distribution(engine);
  return values;
}

TEST(NormLaw, OutputDeviationIsThatOfAnActualRow) {
  // For (1, 3), σ is 1, and the outputs are ∓ the expected value.
  for (const double epsilon : {0.0, 1e-5, 0.5}) {
    EXPECT_NEAR(output_deviation({.epsilon = epsilon}, 1), normalize({1, 3}, epsilon)[1], 1e-15);
  }
  EXPECT_DOUBLE_EQ(output_deviation({.epsilon = 3, .epsilon_at = EpsilonAt::kDeviation}, 1), 0.25);
  EXPECT_DOUBLE_EQ(divisor({.epsilon = 9}, 4), 5);
}

TEST(NormLaw, NormalizedShareIsUniformForFourFeaturesAndNormalForMany) {
  EXPECT_NEAR(normalized_share(4, -1, 0.5), 1.5 / (2 * std::sqrt(3)), 1e-12);
  EXPECT_NEAR(normalized_share(10'000'000, 0.3, 0.8), normal_share(0.3, 0.8), 1e-7);
}

TEST(NormLaw, NormalizedShareIsThatOfDrawnRows) {
  constexpr std::size_t kRows = 40'000;
  constexpr double kStandardErrors = 5;
  std::mt19937_64 engine(7);
  for (const std::size_t d : {5U, 16U}) {
    Vector features;
    for (std::size_t r = 0; r < kRows; ++r) {
      const Vector row = normalize(draw(d, std::normal_distribution<>(5, 10), engine), 0);
      features.insert(features.end(), row.begin(), row.end());
    }
    const double n = static_cast<double>(features.size());
    for (double low = -2; low < 1.9; low += 0.25) {
      const auto count =
          std::ranges::count_if(features, [&](double z) { return low <= z && z < low + 0.25; });
      const double share = normalized_share(d, low, low + 0.25);
      EXPECT_NEAR(static_cast<double>(count) / n, share,
                  kStandardErrors * std::sqrt(share * (1 - share) / n))
          << d << ", " << low;
    }
  }
}

Vector sum(const Vector& x, double k, const Vector& f) {
  Vector s = x;
  for (std::size_t i = 0; i < s.size(); ++i) s[i] += k * f[i];
  return s;
}

SumMoments moments(const Vector& x, const Vector& f) {
  auto covariance = [](const Vector& a, const Vector& b) {
    return dot(a, b) / static_cast<double>(a.size()) - mean(a) * mean(b);
  };
  return {covariance(x, x), covariance(f, f), covariance(x, f)};
}

TEST(NormLaw, SumMomentsAreThoseOfTheSum) {
  std::mt19937_64 engine(1);
  for (int i = 0; i < 20; ++i) {
    const Vector x = draw(5, std::uniform_real_distribution<>(-1, 1), engine);
    const Vector f = draw(5, std::uniform_real_distribution<>(-1, 1), engine);
    const SumMoments m = moments(x, f);
    for (const double k : {1.0, 10.0, 1000.0}) {
      const Vector s = sum(x, k, f);
      EXPECT_NEAR(m.variance(k) / moments(s, s).x, 1, 1e-9);
      EXPECT_NEAR(m.cosine(1, k), cosine(normalize(sum(x, 1, f), 0), normalize(s, 0)), 1e-9);
      EXPECT_NEAR(m.branch_cosine(k), cosine(normalize(f, 0), normalize(s, 0)), 1e-9);
    }
  }
}

// Tests the statements of docs/theory.md and the lab about F × 10, without the laws above.

/// Returns the middle of an odd number of values.
double median(Vector values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double deviation(const Vector& values) {
  double squares = 0;
  for (const double v : values) squares += std::pow(v - mean(values), 2);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

TEST(NormLaw, MediansOverUniformDrawsAreTheKnownOnes) {
  constexpr std::size_t kSeeds = 400;
  constexpr std::size_t kTokens = 1001;
  enum Quantity { kStableCosine, kBranchCosine, kGrowth, kQuantities };
  std::mt19937_64 engine(2);
  Vector all[kQuantities], medians[kQuantities];
  for (std::size_t seed = 0; seed < kSeeds; ++seed) {
    Vector tokens[kQuantities];
    for (std::size_t t = 0; t < kTokens; ++t) {
      const Vector x = draw(5, std::uniform_real_distribution<>(-1, 1), engine);
      const Vector f = draw(5, std::uniform_real_distribution<>(-1, 1), engine);
      const Vector stable = sum(x, 1, f), loud = sum(x, 10, f);
      const Vector x_hat = normalize(loud, 0);
      tokens[kStableCosine].push_back(cosine(x_hat, normalize(stable, 0)));
      tokens[kBranchCosine].push_back(cosine(x_hat, normalize(f, 0)));
      tokens[kGrowth].push_back(deviation(loud) / deviation(stable));
    }
    for (int q = 0; q < kQuantities; ++q) {
      medians[q].push_back(median(tokens[q]));
      all[q].insert(all[q].end(), tokens[q].begin(), tokens[q].end());
    }
  }
  struct Known {
    Quantity quantity;
    double median, half_digit;
    double spread;  // of medians over one seed; its standard error is spread/√800
  };
  for (const Known& known :
       {Known{kStableCosine, 0.81, 0.005, 0.0075}, Known{kBranchCosine, 0.996, 0.0005, 0.00013},
        Known{kGrowth, 7.1, 0.05, 0.085}}) {
    const int q = known.quantity;
    EXPECT_NEAR(median(all[q]), known.median, known.half_digit) << q;
    EXPECT_NEAR(deviation(medians[q]) / known.spread, 1, 0.12) << q;
  }
  EXPECT_NEAR(mean(all[kBranchCosine]), 0.994, 0.0005);
}

/// ∂x̂_i/∂x_j by central differences.
double jacobian_entry(const Vector& x, std::size_t i, std::size_t j, double epsilon) {
  constexpr double kStep = 1e-6;
  Vector above = x, below = x;
  above[j] += kStep;
  below[j] -= kStep;
  return (normalize(above, epsilon)[i] - normalize(below, epsilon)[i]) / (2 * kStep);
}

TEST(NormLaw, JacobianIsThatOfDifferences) {
  std::mt19937_64 engine(3);
  const Vector x = draw(6, std::normal_distribution<>(), engine);
  const double sigma = std::sqrt(moments(x, x).x);
  for (const double epsilon : {0.0, 0.3}) {
    const Vector x_hat = normalize(x, epsilon);
    double squares = 0, along = 0;
    for (std::size_t i = 0; i < 6; ++i) {
      for (std::size_t j = 0; j < 6; ++j) {
        const double entry = jacobian_entry(x, i, j, epsilon);
        squares += entry * entry;
        along += x_hat[i] * entry * x_hat[j] / dot(x_hat, x_hat);
      }
    }
    const double divide_by = divisor({.epsilon = epsilon}, sigma);
    EXPECT_NEAR(jacobian_norm(6, sigma, epsilon), std::sqrt(squares), 1e-7);
    EXPECT_NEAR(left_along_x_hat(sigma, epsilon), along * divide_by, 1e-7);
    EXPECT_NEAR(removed_share(6, sigma, epsilon), 1 - squares * divide_by * divide_by / 6, 1e-7);
  }
}

TEST(NormLaw, RemovedShareVariesAsBetaSays) {
  // Without the mean and x̂, a random direction keeps 4 of 6 dimensions.
  constexpr std::size_t kDraws = 100'000;
  std::mt19937_64 engine(4);
  double squares = 0;
  for (std::size_t i = 0; i < kDraws; ++i) {
    const Vector g = draw(6, std::normal_distribution<>(), engine);
    squares += std::pow((g[0] * g[0] + g[1] * g[1]) / dot(g, g) - 1.0 / 3, 2);
  }
  EXPECT_NEAR(squares / kDraws / removed_share_variance(6), 1, 0.03);
}

TEST(NormLaw, BatchStatisticsVaryAsSamplesOfThatSizeDo) {
  constexpr std::size_t kDraws = 100'000;
  std::mt19937_64 engine(5);
  for (const std::size_t batch : {1U, 2U, 5U, 16U}) {
    double mean_squares = 0, squares = 0, fourth = 0;
    for (std::size_t i = 0; i < kDraws; ++i) {
      const Vector x = draw(batch, std::normal_distribution<>(), engine);
      const double error = moments(x, x).x - 1;
      mean_squares += mean(x) * mean(x) / kDraws;
      squares += error * error / kDraws;
      fourth += std::pow(error, 4) / kDraws;
    }
    EXPECT_NEAR(std::sqrt(mean_squares) / batch_mean_error(batch), 1, 0.02);
    EXPECT_NEAR(std::sqrt(squares) / batch_variance_error(batch), 1, 0.02);
    const double spread = std::sqrt(std::max(0.0, fourth / squares / squares - 1));
    EXPECT_NEAR(spread, batch_variance_error_spread(batch), 0.2) << batch;
  }
}

TEST(NormLaw, PaddingMixesZerosIn) {
  const Vector values{1, 4, 7, 12}, with_zeros{1, 4, 7, 12, 0, 0};
  const Moments m = padded({mean(values), moments(values, values).x}, 1.0 / 3);
  EXPECT_NEAR(m.mean, mean(with_zeros), 1e-12);
  EXPECT_NEAR(m.variance, moments(with_zeros, with_zeros).x, 1e-12);
}

template <typename T>
double measured_storage_error(double sigma) {
  constexpr std::size_t kDraws = 100'000;
  std::mt19937_64 engine(6);
  double squares = 0;
  for (const double v : draw(kDraws, std::normal_distribution<>(0, sigma), engine)) {
    const auto x = static_cast<float>(v);
    squares += std::pow(static_cast<double>(x) - static_cast<float>(T(x)), 2);
  }
  return std::sqrt(squares / kDraws);
}

TEST(NormLaw, StorageErrorIsThatOfTheTypes) {
  for (const double sigma : {1e-6, 1e-4, 1.0, 3.0, 1e3}) {
    EXPECT_NEAR(storage_error(kFloat16Format, sigma) / measured_storage_error<Float16>(sigma), 1,
                0.02);
    EXPECT_NEAR(storage_error(kBFloat16Format, sigma) / measured_storage_error<BFloat16>(sigma), 1,
                0.02);
  }
}

TEST(NormLaw, RangesOfStorageAreThoseOfTheTypes) {
  auto through_float16 = [](double v) {
    return static_cast<float>(Float16(static_cast<float>(v)));
  };
  for (const double edge : {vanishes_to(kFloat16Format), kFloat16Format.overflows_from}) {
    for (const double v : {edge * (1 - 1e-6), edge, edge * (1 + 1e-6)}) {
      const double law = stored(kFloat16Format, v);
      EXPECT_EQ(law == 0, through_float16(v) == 0) << v;
      EXPECT_EQ(std::isinf(law), std::isinf(through_float16(v))) << v;
    }
  }
  EXPECT_EQ(stored_statistics_output(kFloat16Format, 128, 1e-12), 1);
  EXPECT_EQ(stored_statistics_output(kFloat16Format, 256, 1e-12), 0);
  EXPECT_TRUE(std::isinf(stored_statistics_output(kFloat16Format, 0x1p-13, 1e-12)));
}

TEST(NormLaw, NormalShareIsThatOfTables) {
  EXPECT_NEAR(normal_share(-1, 1), 0.682689, 1e-6);
  EXPECT_NEAR(normal_share(0, 1.959964), 0.475, 1e-6);
}

}  // namespace
}  // namespace addnorm::theory
