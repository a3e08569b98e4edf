/// Tests the numerics contract (docs/numerics.md) of every norm.

#include <gtest/gtest.h>
#include <omp.h>
#include <rapidcheck/gtest.h>

#include "addnorm/matrix.h"
#include "kernels/constant_block.h"
#include "support/norm_case.h"

namespace addnorm::kernels {
namespace {

using testing::describe;
using testing::kAllKinds;
using testing::max_error;
using testing::NormCase;
using testing::relative_error;
using testing::same_bits;

NormOptions options_of(NormKind kind) {
  return {.kind = kind, .groups = kind == NormKind::kGroup ? 2u : 1u};
}

/// A shape whose sets hold `size` values each.
reference::Shape shape_of(NormKind kind, std::size_t size) {
  switch (kind) {
    case NormKind::kBatch:
      return {size / 2, 5, 2};
    case NormKind::kInstance:
      return {3, 2, size};
    case NormKind::kGroup:
      return {2, 8, size / 4};
    default:
      return {5, size, 1};
  }
}

/// A shape whose sets hold three values each, fewer than the first values from which a shift comes.
reference::Shape shape_of_three(NormKind kind) {
  switch (kind) {
    case NormKind::kBatch:
      return {3, 5, 1};
    case NormKind::kInstance:
      return {3, 2, 3};
    case NormKind::kGroup:
      return {2, 6, 1};
    default:
      return {5, 3, 1};
  }
}

/// Checks the promised bounds without γ and β, whose roundings would add to the error.
void expect_right(NormCase<float> c, double y_bound, double dx_bound) {
  c.gamma.clear();
  c.beta.clear();
  c.run();
  EXPECT_LE(max_error(c.y, c.expected().y), y_bound);
  EXPECT_LE(relative_error(c.dx, c.expected_gradients().dx), dx_bound);
}

TEST(Numerics, ErrorDoesNotGrowWithTheMean) {
  for (const NormKind kind : kAllKinds) {
    for (const std::size_t features : {768, 4096}) {
      for (const double mean : {0.0, 10.0, 1e3, 1e4, 1e5, 1e6}) {
        SCOPED_TRACE(
            fmt::format("kind {}, {} values, mean/std {}", static_cast<int>(kind), features, mean));
        expect_right({options_of(kind), shape_of(kind, features), {mean, 1}}, 2e-6, 1e-6);
      }
    }
  }
}

// The test includes rows whose first values, with which statistics begin, differ from the rest.
TEST(Numerics, ErrorDoesNotGrowWithTheMeanOfTheGradient) {
  for (const NormKind kind : kAllKinds) {
    if (kind == NormKind::kRms) continue;  // kRms does not centre
    for (const double mean : {10.0, 1e3, 1e5}) {
      for (const float apart : {0.0F, 0.7F}) {
        SCOPED_TRACE(fmt::format("kind {}, mean {}, {}", static_cast<int>(kind), mean, apart));
        NormCase<float> c(options_of(kind), shape_of(kind, 768), {10, 1});
        for (float& dy : c.dy) dy += static_cast<float>(mean);
        for (std::size_t i = 0; i < c.x.size(); ++i) c.x[i] += i % 768 < 32 ? apart : 0;
        expect_right(std::move(c), 2e-6, 1e-6);
      }
    }
  }
}

// ε is 0 for small values, where it would dominate, and stays for large ones, where it must not
// matter.
TEST(Numerics, ErrorDoesNotGrowWithTheScale) {
  for (const NormKind kind : kAllKinds) {
    for (const std::size_t features : {768, 4096}) {
      for (const double mean : {0.0, 1e5}) {
        for (int exponent = -30; exponent <= 30; exponent += 10) {
          NormOptions options = options_of(kind);
          if (exponent <= 0) options.epsilon = 0;
          const double deviation = std::pow(10.0, exponent);
          SCOPED_TRACE(fmt::format("kind {}, {} values, std {}, mean/std {}",
                                   static_cast<int>(kind), features, deviation, mean));
          expect_right({options, shape_of(kind, features), {mean * deviation, deviation}}, 1e-5,
                       1e-5);
        }
      }
    }
  }
}

// Without the second correction of the mean, the error of y would be 6e-4.
TEST(Numerics, AMillionValuesKeepTheirMean) {
  NormCase<float> c({}, {1, 1'000'000}, {1e6, 1});
  c.gamma.clear();
  c.beta.clear();
  c.forward();
  EXPECT_LE(max_error(c.y, c.expected().y), 2e-6);
}

// Statistics begin with the mean of the first values. Moments about a number that is 1000 standard
// deviations away would lose 15 of 24 bits.
TEST(Numerics, AMillionValuesMayBeFarFromTheFirst) {
  NormCase<float> c({}, {1, 1'000'000}, {0, 1});
  for (std::size_t i = 0; i < 32; ++i) c.x[i] += 1000;
  c.gamma.clear();
  c.beta.clear();
  c.forward();
  EXPECT_LE(relative_error(c.y, c.expected().y), 2e-6);
}

// The squares of each later stretch are 0.4 of the last bit of the first one's, so that plain sums
// would lose them all: 6e-6 of the total.
TEST(Numerics, StretchesAreNotLostBesideALargerOne) {
  constexpr std::size_t kStretches = 128;
  Matrix<float> x(1, kStretches * kStretch);
  const float small = 0x1p-12F * std::sqrt(0.8F);
  std::ranges::fill(x.flat(), small);
  std::ranges::fill(x.flat().first(kStretch), 1.0F);
  NormStatistics<float> found;
  add_norm_forward<float>({.kind = NormKind::kRms, .epsilon = 0},
                          {.add = {.x = x}, .y = x, .statistics = {&found, 1}});
  const double expected = (1 + (kStretches - 1) * double{small} * small) / kStretches;
  EXPECT_NEAR(found.variance / expected, 1, 5e-7);
}

// Values that differ in their last bit only. The rounding error of their sum exceeds their
// deviation, so their mean is known only as the sum of two numbers. The reference gets the
// differences, because its own sums would round too.
TEST(Numerics, NeighboursInFloat32AreNormalizedLikeOtherValues) {
  constexpr float kValue = 0x1.234566p10F, kNext = 0x1.234568p10F;
  for (const NormKind kind : kAllKinds) {
    if (kind == NormKind::kRms) continue;  // kRms does not centre
    for (const std::size_t size : {768, 20'000}) {
      for (const std::size_t period : {2, 101}) {
        SCOPED_TRACE(
            fmt::format("kind {}, {} values, 1 in {}", static_cast<int>(kind), size, period));
        NormCase<float> c(options_of(kind), shape_of(kind, size));
        c.options.epsilon = 0;
        for (std::size_t i = 0; i < c.x.size(); ++i) {
          c.x[i] = i * 7 % 12'289 % period == 1 ? kNext : kValue;
        }
        c.gamma.clear();
        c.beta.clear();
        c.forward();
        reference::Norm differences = c.reference();
        for (double& x : differences.x) x -= kValue;
        EXPECT_LE(relative_error(c.y, reference::norm_forward(differences).y), 2e-6);
      }
    }
  }
}

// The error of plain sums over a row's blocks grows with the row: for a million values dx had an
// error of 1.4e-6.
TEST(Numerics, ErrorDoesNotGrowWithTheWidth) {
  for (const std::size_t features : {65'500, 65'536, 1'000'000}) {
    for (const NormKind kind : {NormKind::kLayer, NormKind::kRms, NormKind::kInstance}) {
      for (const double mean : {0.0, 1e3}) {
        SCOPED_TRACE(
            fmt::format("kind {}, {} values, mean {}", static_cast<int>(kind), features, mean));
        const bool is_row = kind != NormKind::kInstance;
        NormCase<float> c({.kind = kind}, {1, is_row ? features : 1, is_row ? 1 : features},
                          {mean, 1});
        if (mean == 0) {  // equal squares would all round alike
          for (float& x : c.x) x = x < 0 ? -1.1F : 1.1F;
        }
        expect_right(std::move(c), 2e-6, 1e-6);
      }
    }
  }
}

// With two features x̂ is ±1 for any values. The remainder of g is a small part of its terms, and
// has their error.
TEST(Numerics, GradientOfFewFeaturesIsAsRightAsItsTerms) {
  for (const std::size_t features : {1, 2, 3, 4, 5, 8}) {
    for (const double mean : {0.0, 1e3}) {
      NormCase<float> c({}, {1000, features}, {mean, 1});
      c.gamma.clear();
      c.beta.clear();
      c.run();
      const reference::Values dx = c.expected_gradients().dx;
      for (std::size_t r = 0; r < 1000; ++r) {
        const std::span dy = std::span(c.dy).subspan(r * features, features);
        const double largest = std::abs(
            *std::ranges::max_element(dy, {}, [](float value) { return std::abs(value); }));
        for (std::size_t i = r * features; i < (r + 1) * features; ++i) {
          ASSERT_NEAR(c.dx[i], dx[i], 1e-6 * largest * c.statistics[r].reciprocal)
              << features << " features, mean " << mean << ", row " << r;
        }
      }
    }
  }
}

// An ε of 1e30 matters for values of 1e15 as a variance and of 1e30 as a deviation.
TEST(Numerics, HugeValuesStayFiniteAndRight) {
  for (const NormKind kind : kAllKinds) {
    for (const double size : {1e10, 1e14, 1e15, 1e19, 1e25, 1e30, 1e38, 3.4e38}) {
      for (const double epsilon : {1e-5, 1e30}) {
        for (const auto epsilon_at : {EpsilonAt::kVariance, EpsilonAt::kDeviation}) {
          NormOptions options = options_of(kind);
          options.epsilon = epsilon;
          options.epsilon_at = epsilon_at;
          SCOPED_TRACE(fmt::format("size {}, {}", size, describe(options)));
          NormCase<float> c(options, shape_of(kind, 768));
          for (float& x : c.x) x = static_cast<float>(std::sin(x) * size);
          for (float& dy : c.dy) dy *= 1e20f;  // so that dx is not subnormal
          c.beta.clear();                      // so that nothing hides a small x̂
          c.run();
          EXPECT_LE(relative_error(c.y, c.expected().y), 2e-6);
          EXPECT_LE(relative_error(c.dx, c.expected_gradients().dx), 4e-6);
          EXPECT_LE(relative_error(c.d_gamma, c.expected_gradients().d_gamma), 2e-6);
        }
      }
    }
  }
}

TEST(Numerics, ConstantSetsGiveExactlyBeta) {
  for (const NormKind kind : kAllKinds) {
    if (kind == NormKind::kRms) continue;  // kRms does not centre
    for (const double size : {1e-45, 1e-30, 0.1, 3.0, 1e5, 1e10, 1e14, 1e19, 1e25, 1e30, 3.4e38}) {
      for (const std::size_t n : {2, 34, 768, 1000}) {
        SCOPED_TRACE(fmt::format("kind {}, {} times {}", static_cast<int>(kind), n, size));
        NormOptions options = options_of(kind);
        options.epsilon_at = n % 4 == 0 ? EpsilonAt::kVariance : EpsilonAt::kDeviation;
        NormCase<float> c(options, shape_of(kind, 4 * n));
        std::fill(c.x.begin(), c.x.end(), static_cast<float>(-size));
        c.run();
        for (std::size_t i = 0; i < c.y.size(); ++i) {
          ASSERT_EQ(c.y[i], c.beta[i / c.shape.positions % c.shape.channels]);
        }
        EXPECT_EQ(c.statistics[0].mean(), static_cast<float>(-size));
        const std::vector<float> dx = c.dx;
        std::fill(c.x.begin(), c.x.end(), 0.0f);  // the same gradient, and exact in the reference
        EXPECT_LE(relative_error(dx, c.expected_gradients().dx), 2e-6);
      }
    }
  }
}

// The reciprocal of such an ε exceeds float32, and 0·∞ would be NaN. In float32 the last two are 0.
TEST(Numerics, ConstantSetsGiveExactlyBetaHoweverSmallEpsilonIs) {
  for (const NormKind kind : kAllKinds) {
    for (const EpsilonAt at : {EpsilonAt::kVariance, EpsilonAt::kDeviation}) {
      for (const double epsilon : {1e-20, 1e-38, 1e-40, 1e-44, 1e-50, 1e-300}) {
        for (const float value : {0.0F, 3.0F}) {
          if (kind == NormKind::kRms && value != 0) continue;  // kRms does not centre
          SCOPED_TRACE(fmt::format("kind {}, epsilon {} at {}, value {}", static_cast<int>(kind),
                                   epsilon, static_cast<int>(at), value));
          NormOptions options = options_of(kind);
          options.epsilon = epsilon;
          options.epsilon_at = at;
          NormCase<float> c(options, shape_of(kind, 64));
          std::ranges::fill(c.x, value);
          c.forward();
          for (std::size_t i = 0; i < c.y.size(); ++i) {
            ASSERT_EQ(c.y[i], c.beta[i / c.shape.positions % c.shape.channels]);
          }
        }
      }
    }
  }
}

/// Returns which values of x are normalized together with value `at`.
std::vector<bool> set_of(const NormCase<float>& c, std::size_t at) {
  NormCase<double> probe(c.options, c.shape);
  const auto before = probe.expected().y;
  reference::Norm changed = probe.reference();
  changed.x[at] += 1;
  const auto after = reference::norm_forward(changed).y;
  std::vector<bool> in_set;
  for (std::size_t i = 0; i < after.size(); ++i) in_set.push_back(after[i] != before[i]);
  return in_set;
}

TEST(Numerics, NanAndInfinityStayInTheirSet) {
  for (const NormKind kind : kAllKinds) {
    for (const float poison : {NAN, INFINITY, -INFINITY}) {
      for (const auto& [shape, at] : {std::pair{shape_of(kind, 40), 0},
                                      {shape_of(kind, 40), 40},
                                      {shape_of(kind, 40), 100},
                                      {shape_of_three(kind), 0},
                                      {shape_of_three(kind), 1},
                                      {shape_of_three(kind), 3},
                                      {shape_of_three(kind), 6}}) {
        SCOPED_TRACE(fmt::format("kind {}, {} at {}", static_cast<int>(kind), poison, at));
        const NormCase<float> fresh(options_of(kind), shape);
        NormCase<float> good = fresh, bad_x = fresh, bad_dy = fresh;
        bad_x.x[at] = poison;
        bad_dy.dy[at] = poison;
        good.run();
        bad_x.run();
        bad_dy.run();
        const std::vector<bool> in_set = set_of(fresh, at);
        for (std::size_t i = 0; i < in_set.size(); ++i) {
          SCOPED_TRACE(i);
          if (in_set[i]) {
            EXPECT_TRUE(std::isnan(bad_x.y[i]));
            EXPECT_TRUE(std::isnan(bad_x.dx[i]));
            EXPECT_FALSE(std::isfinite(bad_dy.dx[i]));
          } else {
            EXPECT_TRUE(same_bits(std::span(&bad_x.y[i], 1), std::span(&good.y[i], 1)));
            EXPECT_TRUE(same_bits(std::span(&bad_x.dx[i], 1), std::span(&good.dx[i], 1)));
            EXPECT_TRUE(same_bits(std::span(&bad_dy.dx[i], 1), std::span(&good.dx[i], 1)));
          }
        }
      }
    }
  }
}

TEST(Numerics, BitsDoNotDependOnTheNumberOfThreads) {
  const int threads = omp_get_max_threads();
  for (const NormKind kind : kAllKinds) {
    const reference::Shape shape = kind == NormKind::kLayer || kind == NormKind::kRms
                                       ? reference::Shape{200, 333}
                                       : reference::Shape{200, 32, 20};
    const NormCase<float> fresh(options_of(kind), shape);
    NormCase<float> one = fresh;
    omp_set_num_threads(1);
    one.run();
    for (const int count : {2, 3, 7}) {
      NormCase<float> many = fresh;
      omp_set_num_threads(count);
      many.run();
      EXPECT_TRUE(same_bits(many.y, one.y));
      EXPECT_TRUE(same_bits(many.dx, one.dx));
      EXPECT_TRUE(same_bits(many.d_gamma, one.d_gamma));
      EXPECT_TRUE(same_bits(many.d_beta, one.d_beta));
    }
  }
  omp_set_num_threads(threads);
}

RC_GTEST_PROP(NumericsProperty, ARowHasTheSameBitsAnywhereInAnyBatch, ()) {
  const auto kind = *rc::gen::element(NormKind::kLayer, NormKind::kRms);
  const auto rows = *rc::gen::inRange<std::size_t>(1, 80);
  const auto cols = *rc::gen::inRange<std::size_t>(1, 300);
  const auto r = *rc::gen::inRange<std::size_t>(0, rows);
  NormCase<float> batch({.kind = kind}, {rows, cols});
  NormCase<float> alone({.kind = kind}, {1, cols});
  // Rows that must be scaled take another path than their neighbours.
  const auto step = *rc::gen::inRange<std::size_t>(1, 12);
  for (auto huge = *rc::gen::inRange<std::size_t>(0, 2 * rows); huge < rows; huge += step) {
    for (std::size_t i = 0; i < cols; ++i) batch.x[huge * cols + i] *= 1e25F;
  }
  batch.run();
  alone.gamma = batch.gamma;
  alone.beta = batch.beta;
  auto row = [&](std::vector<float>& values) {
    return std::vector<float>(&values[r * cols], &values[r * cols] + cols);
  };
  alone.x = row(batch.x);
  alone.dy = row(batch.dy);
  alone.run();
  RC_ASSERT(same_bits(alone.y, row(batch.y)));
  RC_ASSERT(same_bits(alone.dx, row(batch.dx)));
}

RC_GTEST_PROP(NumericsProperty, WithoutEpsilonAPowerOfTwoChangesNoBitOfTheOutput, ()) {
  const auto kind = kAllKinds[*rc::gen::inRange<std::size_t>(0, std::size(kAllKinds))];
  const auto exponent = *rc::gen::inRange(-30, 126);
  NormOptions options = options_of(kind);
  options.epsilon = 0;
  NormCase<float> plain(options, shape_of(kind, 40), {0, 0.3});
  NormCase<float> scaled = plain;
  for (float& x : scaled.x) x = std::ldexp(x, exponent);
  plain.run();
  scaled.run();
  RC_ASSERT(same_bits(scaled.y, plain.y));
  RC_ASSERT(same_bits(scaled.d_gamma, plain.d_gamma));
}

TEST(Numerics, TinyValuesAreRightWhereEpsilonIsZero) {
  for (const double size : {1e-10, 1e-15, 1e-22, 1e-30, 1e-37}) {
    SCOPED_TRACE(size);
    NormCase<float> c({.epsilon = 0}, {3, 64});
    for (float& x : c.x) x = static_cast<float>(x * size);
    c.beta.clear();
    c.forward();
    EXPECT_LE(relative_error(c.y, c.expected().y), 2e-6);
  }
}

// A tiny ε does not hide the squares that vanish.
TEST(Numerics, TinyValuesAreRightWhereEpsilonIsTinyToo) {
  struct Tiny {
    double epsilon;
    EpsilonAt at;
    double size;
  };
  for (const auto& [epsilon, at, size] : {Tiny{1e-30, EpsilonAt::kDeviation, 1e-25},
                                          {1e-38, EpsilonAt::kDeviation, 1e-22},
                                          {1e-40, EpsilonAt::kDeviation, 1e-25},
                                          {9e-32, EpsilonAt::kVariance, 1e-36},
                                          {9e-32, EpsilonAt::kVariance, 1e-42},
                                          {1e-36, EpsilonAt::kVariance, 1e-42},
                                          {1e-50, EpsilonAt::kVariance, 1e-25},
                                          {1e-60, EpsilonAt::kVariance, 1e-30},
                                          {1e-70, EpsilonAt::kVariance, 1e-30}}) {
    for (const NormKind kind : {NormKind::kLayer, NormKind::kRms}) {
      SCOPED_TRACE(fmt::format("epsilon {} at {}, size {}, kind {}", epsilon, static_cast<int>(at),
                               size, static_cast<int>(kind)));
      NormOptions options = options_of(kind);
      options.epsilon = epsilon;
      options.epsilon_at = at;
      expect_right({options, shape_of(kind, 64), {0, size}}, 1e-5, 1e-5);
    }
  }
}

TEST(Numerics, ParameterGradientsStayRightOverManySamples) {
  constexpr std::size_t kSamples = 300'000;
  const std::vector<float> x(kSamples * 2, 1.0F);
  const std::vector<float> dy(kSamples * 2, 0.1F);
  const NormOptions options{.kind = NormKind::kGroup, .groups = 1};
  const MatrixView<const float> s{x.data(), kSamples, 2};
  std::vector<float> y(x.size());
  std::vector<NormStatistics<float>> statistics(kSamples);
  std::vector<float> workspace(norm_workspace(options, kSamples, 2));
  add_norm_forward<float>(options, {.add = {.x = s},
                                    .y = {y.data(), kSamples, 2},
                                    .statistics = statistics,
                                    .workspace = workspace});
  std::vector<float> d_beta(2);
  add_norm_backward<float>(options, {.s = s,
                                     .statistics = statistics,
                                     .dy = {dy.data(), kSamples, 2},
                                     .dx = {y.data(), kSamples, 2},
                                     .d_beta = d_beta,
                                     .workspace = workspace});
  EXPECT_NEAR(d_beta[0] / (kSamples * static_cast<double>(0.1F)), 1, 1e-6);
}

TEST(Numerics, ParameterGradientsStayRightOverManyRows) {
  constexpr std::size_t kRows = 8192;
  for (const std::size_t cols : {1, 2, 8, 64}) {
    SCOPED_TRACE(cols);
    const std::vector<float> s(kRows * cols, 1.0F);
    const std::vector<float> dy(s.size(), 0.1F);
    std::vector<float> dx(s.size()), d_beta(cols), workspace(add_norm_workspace(kRows, cols));
    const std::vector<NormStatistics<float>> statistics(kRows, {.reciprocal = 1});
    add_norm_backward<float>({}, {.s = {s.data(), kRows, cols},
                                  .statistics = statistics,
                                  .dy = {dy.data(), kRows, cols},
                                  .dx = {dx.data(), kRows, cols},
                                  .d_beta = d_beta,
                                  .workspace = workspace});
    EXPECT_NEAR(d_beta[0] / (kRows * static_cast<double>(0.1F)), 1, 1e-6);
  }
}

}  // namespace
}  // namespace addnorm::kernels
