#pragma once

/// The parts that the tests Fuzz.* share: random choices, tolerances relative to float64, and the
/// loop over seeds and instruction sets. Case n depends only on the seed n. ADDNORM_FUZZ_SECONDS
/// sets the duration, ADDNORM_FUZZ_SEED the first case (CONTRIBUTING.md).

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "addnorm/float16.h"
#include "addnorm/norm.h"
#include "kernels/plan.h"
#include "kernels/reference.h"
#include "kernels/statistics.h"
#include "support/compare.h"
#include "support/instruction_sets.h"

namespace addnorm::testing {

/// The rounding of a type.
template <typename T>
struct Rounding;
template <>
struct Rounding<float> {
  static constexpr double kRelative = 0x1p-24, kSmallest = 0x1p-149, kLargest = 0x1.fffffep127;
};
template <>
struct Rounding<BFloat16> {
  static constexpr double kRelative = 0x1p-8, kSmallest = 0x1p-133, kLargest = 0x1.fep127;
};
template <>
struct Rounding<Float16> {
  static constexpr double kRelative = 0x1p-11, kSmallest = 0x1p-24, kLargest = 65504;
};

/// The error of float32 arithmetic, about 8 roundings, relative to the terms of a result.
inline constexpr double kArithmetic = 5e-7;
/// The unit of the error of subnormal products in float32.
inline constexpr double kSubnormal = 0x1p-126;
/// Larger terms may overflow on the way.
inline constexpr double kOverflow = Rounding<float>::kLargest / 8;

/// A result, and the size of its terms.
struct Expected {
  double value = 0;
  double terms = 0;

  void operator+=(const Expected& other) {
    value += other.value;
    terms += other.terms;
  }
  /// Returns the product with a factor in float32.
  Expected times(double factor) const {
    const bool overflows = terms > kOverflow && !std::isnan(value);
    return {value * factor, overflows ? INFINITY : terms * std::abs(factor) + kSubnormal};
  }
};

/// Whether `actual` is the expected value, within the errors of float32 arithmetic and the rounding
/// of its type.
template <typename T>
::testing::AssertionResult is_near(T actual, const Expected& expected) {
  using Type = Rounding<T>;
  const double value = static_cast<float>(actual);
  const double error = kArithmetic * expected.terms;
  const double rounding = Type::kRelative * std::abs(expected.value) + 2 * Type::kSmallest;
  bool good = std::abs(value - expected.value) <= error + rounding;
  if (std::isnan(expected.value)) good = std::isnan(value);
  if (std::isinf(value)) {
    const double size = value > 0 ? expected.value : -expected.value;
    good = size + error >= Type::kLargest * (1 - Type::kRelative);
  }
  if (good) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << fmt::format("{} instead of {} ± {:.2g}", value, expected.value, error + rounding);
}

/// Whether the numbers have the same bits, where all NaN are equal: the compiler chooses which of
/// two NaN a sum returns.
template <std::ranges::contiguous_range Range>
bool same_numbers(const Range& a, const Range& b) {
  return std::ranges::equal(a, b, [](const auto& v, const auto& w) {
    return same_bits(std::span(&v, 1), std::span(&w, 1)) ||
           (std::isnan(static_cast<float>(v)) && std::isnan(static_cast<float>(w)));
  });
}

/// A source of choices.
class Choices {
 public:
  explicit Choices(std::uint64_t seed) : engine_(seed) {}

  std::size_t below(std::size_t n) { return engine_() % n; }
  bool one_in(std::size_t n) { return below(n) == 0; }
  template <typename T>
  T of(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }
  double scale() { return std::ldexp(1, static_cast<int>(below(200)) - 100); }

  std::vector<float> normals(std::size_t size, double mean = 0, double deviation = 1) {
    std::vector<float> values(size);
    for (float& value : values) value = static_cast<float>(mean + deviation * normal_(engine_));
    return values;
  }
  /// Returns numbers of any mean, spread and size; some rows are constant, or hold NaN or an
  /// infinity.
  std::vector<float> row(std::size_t size) {
    const double deviation = one_in(3) ? scale() : 1;
    const double mean = of({0.0, 0.0, 1.0, 1e3, 1e5}) * deviation;
    std::vector<float> values = normals(size, mean, one_in(10) ? 0 : deviation);
    if (one_in(10)) {
      for (float& value : values) value = std::ldexp(value, -static_cast<int>(below(100)));
    }
    if (one_in(10)) values[below(size)] = of({0.0F, -0.0F});
    if (one_in(20)) values[below(size)] = of({NAN, INFINITY, -INFINITY});
    return values;
  }
  std::vector<float> gradient(std::size_t size) {
    std::vector<float> values = normals(size, of({0.0, 100.0}));
    if (one_in(5)) {
      for (float& value : values) value *= static_cast<float>(below(2));
    }
    return values;
  }
  NormOptions options(NormKind kind, bool usual, bool may_be_unbiased) {
    if (usual) return {.kind = kind};
    return {.kind = kind,
            .epsilon = of({1e-5, 1e-12, 0.25, 0.0}),
            .epsilon_at = of({EpsilonAt::kVariance, EpsilonAt::kDeviation}),
            .variance = of({Variance::kPopulation,
                            may_be_unbiased ? Variance::kUnbiased : Variance::kPopulation}),
            .gamma_form = of({GammaForm::kPlain, GammaForm::kOnePlus}),
            .output_scale = of({1.0, 0.7})};
  }

 private:
  std::mt19937_64 engine_;
  std::normal_distribution<double> normal_;
};

/// Returns a term for values that must be NaN: sets with NaN or infinity as a whole, and equal
/// values without ε.
inline double nan_where_needed(double deviation) {
  return std::isfinite(deviation) && deviation > 0 ? 0.0 : NAN;
}

/// The reference for one row of a norm whose `x` is known exactly.
struct RowTruth {
  bool has_dx = true;  ///< whether 1/deviation is a float
  std::vector<Expected> y, dx, d_gamma, d_beta;

  RowTruth(kernels::reference::Norm norm, const std::vector<double>& dy) {
    const NormOptions& options = norm.options;
    // A shift does not change LayerNorm, and it saves the reference from a loss of digits to a
    // large mean.
    const double shift = options.kind == NormKind::kLayer ? norm.x[0] : 0;
    for (double& value : norm.x) value -= shift;
    const auto out = norm_forward(norm);
    const auto gradients = norm_backward(norm, dy);

    const std::size_t cols = dy.size();
    const double deviation = out.deviation[0];
    has_dx = !(deviation < 1 / Rounding<float>::kLargest);
    const double nan = nan_where_needed(deviation);
    const double spread = std::sqrt(out.variance[0]) / deviation;  // of x̂
    std::vector<double> factor(cols, options.output_scale);
    double g_squares = 0;
    for (std::size_t i = 0; i < cols; ++i) {
      if (!norm.gamma.empty()) {
        factor[i] = std::abs(kernels::effective_gamma<double>(options, norm.gamma[i]));
      }
      g_squares += std::pow(factor[i] * dy[i], 2);
    }
    const double g_spread = 2 * std::sqrt(g_squares / static_cast<double>(cols));
    for (std::size_t i = 0; i < cols; ++i) {
      const double x_hat = std::abs((norm.x[i] - out.mean[0]) / deviation);
      const double g = factor[i] * std::abs(dy[i]);
      const double beta = norm.beta.empty() ? 0 : std::abs(norm.beta[i]);
      y.push_back({out.y[i] + nan, factor[i] * (x_hat + spread) + beta});
      dx.push_back({gradients.dx[i] + nan, (g + g_spread * (1 + x_hat)) / deviation});
      d_gamma.push_back({gradients.d_gamma[i] + nan, std::abs(dy[i]) * (x_hat + spread)});
      d_beta.push_back({gradients.d_beta[i], std::abs(dy[i])});
    }
  }
};

inline double environment(const char* name, double otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtod(value, nullptr);
}

/// Returns any plan with any numbers; in one case of four, plan() decides.
inline std::optional<kernels::Plan> any_plan(std::uint64_t seed) {
  using kernels::Loop, kernels::Stores;
  Choices choose(seed);
  if (seed % 4 == 0) return {};
  const bool from_memory = choose.one_in(2);
  return kernels::Plan{
      .loop = choose.of({Loop::kRegisters, Loop::kTwoPass, Loop::kPipelined}),
      .rows = choose.of<std::size_t>({1, 2, 3, 4, 8}),
      .tile = choose.of<std::size_t>({1024, 2048, 65536}),
      .prefetch = from_memory ? choose.of<std::size_t>({0, 512, 4096}) : 0,
      .stores = from_memory ? choose.of({Stores::kCached, Stores::kNonTemporal}) : Stores::kCached,
      .from_memory = from_memory,
      .software_pipelined = choose.one_in(2)};
}

/// Tries cases, one seed after the other, until this test's share of the time is over. A case is
/// run on the instruction set in use, compared with the reference, and then run on all others.
template <typename Case>
void fuzz() {
  constexpr double kTests = 15;
  using Clock = std::chrono::steady_clock;
  const std::chrono::duration<double> time(environment("ADDNORM_FUZZ_SECONDS", 2.4) / kTests);
  const auto first_seed = static_cast<std::uint64_t>(environment("ADDNORM_FUZZ_SEED", 1));
  std::uint64_t seed = first_seed;
  const std::string usual(kernels::instruction_set());
  const int threads = omp_get_max_threads();
  const Clock::time_point start = Clock::now();
  do {
    const Case fresh(seed);
    SCOPED_TRACE(
        fmt::format("ADDNORM_FUZZ_SEED={} ADDNORM_FUZZ_SECONDS=0: {}", seed, fresh.text()));
    Case first = fresh;
    first.run();
    first.expect_right();
    for (const std::string& name : all_instruction_sets()) {
      kernels::use_instruction_set(name);
      omp_set_num_threads(1 + static_cast<int>(seed % 3));
      const std::optional<kernels::Plan> plan = any_plan(seed);
      kernels::force_plan(plan);
      Case other = fresh;
      other.run();
      kernels::force_plan({});
      EXPECT_TRUE(other.same_outputs(first))
          << "other bits with " << name << ", "
          << (plan ? kernels::describe(*plan) : "the usual plan");
    }
    omp_set_num_threads(threads);
    kernels::use_instruction_set(usual);
    ++seed;
  } while (Clock::now() - start < time && !::testing::Test::HasFailure());
  ::testing::Test::RecordProperty("cases", std::to_string(seed - first_seed));
}

}  // namespace addnorm::testing
