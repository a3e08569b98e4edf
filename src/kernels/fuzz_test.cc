/// Random norms on every instruction set: the same bits on all of them, and the results of the
/// float64 reference. Case n is made from the seed n alone. ADDNORM_FUZZ_SECONDS says for how long,
/// ADDNORM_FUZZ_SEED which case comes first (CONTRIBUTING.md).

#include <gtest/gtest.h>
#include <omp.h>

#include <chrono>
#include <cstdlib>
#include <limits>
#include <random>

#include "kernels/dropout.h"
#include "kernels/plan.h"
#include "kernels/statistics.h"
#include "support/instruction_sets.h"
#include "support/norm_case.h"

namespace addnorm::kernels {
namespace {

using testing::all_instruction_sets;
using testing::describe;
using testing::NormCase;
using testing::same_bits;

/// The error that float32 arithmetic may make, some 8 roundings, relative to the terms that a
/// result is made of.
constexpr double kArithmetic = 5e-7;
constexpr float kUntouched = 7;  ///< stands behind the rows of what is written

/// How a type rounds.
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

/// A result, and the size of the terms that it is made of.
struct Expected {
  double value = 0;
  double terms = 0;

  void operator+=(const Expected& other) {
    value += other.value;
    terms += other.terms;
  }
};

/// Whether `actual` is as expected but for float32 arithmetic and the rounding of its type.
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

/// Added to what must be NaN: sets with NaN or infinity whole, and equal values without ε.
double nan_where_needed(double deviation) {
  return std::isfinite(deviation) && deviation > 0 ? 0.0 : NAN;
}

/// The same bits, where NaN is NaN: which of two NaN a sum takes is the compiler's choice.
template <typename T>
bool same_numbers(const std::vector<T>& a, const std::vector<T>& b) {
  return std::ranges::equal(a, b, [](const T& v, const T& w) {
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
  /// Numbers of any mean, spread and size; some rows are constant, or hold NaN or an infinity.
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

/// Add & Norm and its backward with any shape, options, arguments and values.
template <typename S, typename B>
struct RowsCase {
  Choices choose;
  std::size_t rows = choose.below(choose.of<std::size_t>({6, 41}));
  std::size_t cols = 1 + choose.below(choose.of<std::size_t>({40, 400, 3000}));
  std::size_t stride = cols + choose.of<std::size_t>({0, 0, 3, 16});
  bool usual = choose.one_in(2);  ///< has loops of its own
  NormOptions options =
      choose.options(choose.of({NormKind::kLayer, NormKind::kRms}), usual, cols > 1);
  bool with_branch = choose.one_in(2);
  bool with_residual = choose.one_in(2);
  bool with_gamma = usual || choose.one_in(2);
  bool with_beta = usual ? options.kind == NormKind::kLayer : choose.one_in(2);
  float skip = usual ? 1 : choose.of({1.0F, 0.0F, -0.7F});
  float gain = usual ? 1 : choose.of({1.0F, 0.6F});
  Dropout dropout{.probability = usual ? 0 : choose.of({0.0, 0.3}), .seed = choose.below(100)};

  std::vector<S> x = stored<S>([&] { return choose.row(cols); });
  std::vector<B> branch = stored<B>([&] { return choose.row(cols); });
  std::vector<B> dy = stored<B>([&] { return choose.gradient(cols); });
  std::vector<S> d_residual = stored<S>([&] { return choose.normals(cols); });
  std::vector<float> gamma = choose.normals(with_gamma ? cols : 0, 1, 0.3);
  std::vector<float> beta = choose.normals(with_beta ? cols : 0);

  std::vector<S> s = std::vector<S>(x.size(), S(kUntouched)), dx = s;
  std::vector<B> y = std::vector<B>(x.size(), B(kUntouched));
  std::vector<B> y_alone = y;  ///< where the sum is not kept
  std::vector<float> d_gamma = std::vector<float>(gamma.size());
  std::vector<float> d_beta = std::vector<float>(beta.size());
  std::vector<float> workspace = std::vector<float>(add_norm_workspace(rows, cols));
  std::vector<NormStatistics<float>> statistics = std::vector<NormStatistics<float>>(rows);

  explicit RowsCase(std::uint64_t seed) : choose(seed) {}

  /// `rows` times what `make_row` gives. Behind each row stands NaN, which nobody may read.
  template <typename T, typename MakeRow>
  std::vector<T> stored(const MakeRow& make_row) {
    std::vector<T> values(rows * stride, T(std::numeric_limits<float>::quiet_NaN()));
    for (std::size_t r = 0; r < rows; ++r) {
      const std::vector<float> row = make_row();
      for (std::size_t i = 0; i < cols; ++i) values[r * stride + i] = T(row[i]);
    }
    return values;
  }
  template <typename T>
  MatrixView<T> view(std::vector<T>& values, bool wanted = true) const {
    return wanted ? MatrixView<T>{values.data(), rows, cols, stride} : MatrixView<T>{};
  }

  void run() {
    AddNormForward<S, B> forward{.add = {.x = view(x),
                                         .branch = view(branch, with_branch),
                                         .skip = {.constant = skip},
                                         .gain = {.constant = gain},
                                         .dropout = dropout},
                                 .gamma = gamma,
                                 .beta = beta,
                                 .y = view(y_alone)};
    add_norm_forward(options, forward);
    forward.sum = view(s);
    forward.y = view(y);
    forward.statistics = statistics;
    add_norm_forward(options, forward);
    add_norm_backward<S, B>(options, {.s = view(s),
                                      .statistics = statistics,
                                      .gamma = gamma,
                                      .dy = view(dy),
                                      .d_residual = view(d_residual, with_residual),
                                      .skip = {.constant = skip},
                                      .dx = view(dx),
                                      .d_gamma = d_gamma,
                                      .d_beta = d_beta,
                                      .workspace = workspace,
                                      .parameter_gradients = GradientMode::kOverwrite});
  }

  bool same_outputs(const RowsCase& other) const {
    return same_numbers(s, other.s) && same_numbers(y, other.y) && same_numbers(y_alone, other.y) &&
           same_numbers(dx, other.dx) && same_numbers(d_gamma, other.d_gamma) &&
           same_numbers(d_beta, other.d_beta);
  }

  template <typename T>
  std::vector<double> row(const std::vector<T>& values, std::size_t r) const {
    std::vector<double> numbers(cols);
    for (std::size_t i = 0; i < cols; ++i) {
      numbers[i] = static_cast<float>(values[r * stride + i]);
    }
    return numbers;
  }

  /// That nothing was written behind the rows.
  void expect_margins() const {
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t at = r * stride + cols; at < (r + 1) * stride; ++at) {
        const bool is_kept = static_cast<float>(s[at]) == kUntouched &&
                             static_cast<float>(dx[at]) == kUntouched &&
                             static_cast<float>(y[at]) == kUntouched;
        ASSERT_TRUE(is_kept) << "behind row " << r;
      }
    }
  }

  void expect_sums() const {
    for (std::size_t r = 0; r < rows; ++r) {
      const std::vector<double> x_row = row(x, r), branch_row = row(branch, r);
      for (std::size_t i = 0; i < cols; ++i) {
        double kept = skip * x_row[i], added = 0;
        if (with_branch) {
          if (skip == 0) kept = 0;  // then x is not looked at
          added = gain * (dropout_factor<float>(dropout, r * cols + i) * branch_row[i]);
        }
        const Expected expected{kept + added, std::abs(kept) + std::abs(added)};
        ASSERT_TRUE(is_near(s[r * stride + i], expected)) << "s " << r << ", " << i;
      }
    }
  }

  struct RowTruth {
    double deviation;
    std::vector<Expected> y, dx, d_gamma, d_beta;
  };
  /// The reference's results for s as it is stored.
  RowTruth truth(std::size_t r) const {
    const auto wide = [](const std::vector<float>& v) { return testing::to_double(v); };
    reference::Norm norm{options, {1, cols}, row(s, r), wide(gamma), wide(beta)};
    // A shift changes no LayerNorm, and then the reference loses no digits to a large mean.
    const double shift = options.kind == NormKind::kLayer ? norm.x[0] : 0;
    for (double& value : norm.x) value -= shift;
    const std::vector<double> dy_row = row(dy, r), past = row(d_residual, r);
    const auto out = norm_forward(norm);
    const auto gradients = norm_backward(norm, dy_row);

    const double deviation = out.deviation[0];
    const double nan = nan_where_needed(deviation);
    const double spread = std::sqrt(out.variance[0]) / deviation;  // x̂'s
    std::vector<double> factor(cols, options.output_scale);
    double g_squares = 0;
    for (std::size_t i = 0; i < cols; ++i) {
      if (with_gamma) factor[i] = std::abs(effective_gamma<double>(options, gamma[i]));
      g_squares += std::pow(factor[i] * dy_row[i], 2);
    }
    const double g_spread = 2 * std::sqrt(g_squares / static_cast<double>(cols));
    RowTruth truth{deviation};
    for (std::size_t i = 0; i < cols; ++i) {
      const double x_hat = std::abs((norm.x[i] - out.mean[0]) / deviation);
      const double g = factor[i] * std::abs(dy_row[i]);
      const double residual = with_residual ? skip * past[i] : 0;
      truth.y.push_back(
          {out.y[i] + nan, factor[i] * (x_hat + spread) + (with_beta ? std::abs(beta[i]) : 0)});
      truth.dx.push_back({gradients.dx[i] + residual + nan,
                          (g + g_spread * (1 + x_hat)) / deviation + std::abs(residual)});
      truth.d_gamma.push_back({gradients.d_gamma[i] + nan, std::abs(dy_row[i]) * (x_hat + spread)});
      truth.d_beta.push_back({gradients.d_beta[i], std::abs(dy_row[i])});
    }
    return truth;
  }

  void expect_norms() const {
    std::vector<Expected> gamma_sums(cols), beta_sums(cols);
    for (std::size_t r = 0; r < rows; ++r) {
      const RowTruth expected = truth(r);
      // 1/deviation must be a float.
      const bool has_dx = !(expected.deviation < 1 / Rounding<float>::kLargest);
      for (std::size_t i = 0; i < cols; ++i) {
        const std::size_t at = r * stride + i;
        ASSERT_TRUE(is_near(y[at], expected.y[i])) << "y " << r << ", " << i;
        gamma_sums[i] += expected.d_gamma[i];
        beta_sums[i] += expected.d_beta[i];
        if (has_dx) {
          ASSERT_TRUE(is_near(dx[at], expected.dx[i])) << "dx " << r << ", " << i;
        }
      }
    }
    for (std::size_t i = 0; i < d_gamma.size(); ++i) {
      ASSERT_TRUE(is_near(d_gamma[i], gamma_sums[i])) << "d_gamma " << i;
    }
    for (std::size_t i = 0; i < d_beta.size(); ++i) {
      ASSERT_TRUE(is_near(d_beta[i], beta_sums[i])) << "d_beta " << i;
    }
  }

  void expect_right() const {
    expect_margins();
    expect_sums();
    expect_norms();
  }
  std::string text() const {
    return fmt::format("{} × {}, stride {}, branch {}, {}", rows, cols, stride, with_branch,
                       describe(options));
  }
};

/// BatchNorm, InstanceNorm or GroupNorm and its backward. Means are moderate, as the reference sums
/// plainly.
struct ChannelsCase : NormCase<float> {
  explicit ChannelsCase(std::uint64_t seed) : NormCase(make(Choices(seed))) {}

  static NormCase make(Choices choose) {
    const auto kind = choose.of({NormKind::kBatch, NormKind::kInstance, NormKind::kGroup});
    const std::size_t groups = kind == NormKind::kGroup ? 1 + choose.below(4) : 1;
    const reference::Shape shape{1 + choose.below(9), groups * (1 + choose.below(20)),
                                 1 + choose.below(choose.of<std::size_t>({5, 60, 1500}))};
    const bool may_be_unbiased = shape.positions > 1;  // then every set has two values
    NormOptions options = choose.options(kind, choose.one_in(3), may_be_unbiased);
    options.groups = groups;
    NormCase c(options, shape);
    const double deviation = choose.one_in(3) ? choose.scale() : 1;
    c.x = choose.normals(c.x.size(), choose.of({0.0, 1.0, 1e3}) * deviation, deviation);
    if (choose.one_in(20)) c.x[choose.below(c.x.size())] = choose.of({NAN, INFINITY, -INFINITY});
    return c;
  }

  bool same_outputs(const ChannelsCase& other) const {
    return same_numbers(y, other.y) && same_numbers(dx, other.dx) &&
           same_numbers(d_gamma, other.d_gamma) && same_numbers(d_beta, other.d_beta);
  }

  std::size_t set_of(std::size_t i) const {
    const std::size_t row = i / shape.positions;  // one channel of one sample
    if (options.kind == NormKind::kBatch) return row % shape.channels;
    return options.kind == NormKind::kInstance ? row : row / (shape.channels / options.groups);
  }

  void expect_right() const {
    const auto out = expected();
    const auto gradients = expected_gradients();
    std::vector<Expected> gamma_sums(gamma.size()), beta_sums(gamma.size());
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::size_t set = set_of(i), channel = i / shape.positions % shape.channels;
      const double deviation = out.deviation[set];
      const double nan = nan_where_needed(deviation);
      const double x_hat = std::abs((x[i] - out.mean[set]) / deviation);
      const double factor = std::abs(effective_gamma<double>(options, gamma[channel]));
      const double g = 8 * (std::abs(dy[i]) + 1 + x_hat);  // dy and γ are about 1
      ASSERT_TRUE(is_near(y[i], {out.y[i] + nan, factor * (x_hat + 1) + std::abs(beta[channel])}))
          << "y " << i;
      ASSERT_TRUE(is_near(dx[i], {gradients.dx[i] + nan, g / deviation})) << "dx " << i;
      gamma_sums[channel] += {nan, std::abs(dy[i]) * (x_hat + 1)};
      beta_sums[channel] += {0, std::abs(dy[i])};
    }
    for (std::size_t c = 0; c < gamma.size(); ++c) {
      gamma_sums[c] += {gradients.d_gamma[c], 0};
      beta_sums[c] += {gradients.d_beta[c], 0};
      ASSERT_TRUE(is_near(d_gamma[c], gamma_sums[c])) << "d_gamma " << c;
      ASSERT_TRUE(is_near(d_beta[c], beta_sums[c])) << "d_beta " << c;
    }
  }
  std::string text() const {
    return fmt::format("{} × {} × {}, {}", shape.samples, shape.channels, shape.positions,
                       describe(options));
  }
};

double environment(const char* name, double otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtod(value, nullptr);
}

/// Every loop with any numbers; for one case in four what plan() says.
std::optional<Plan> any_plan(std::uint64_t seed) {
  Choices choose(seed);
  if (seed % 4 == 0) return {};
  const bool from_memory = choose.one_in(2);
  return Plan{
      .loop = choose.of({Loop::kRegisters, Loop::kTwoPass, Loop::kPipelined}),
      .rows = choose.of<std::size_t>({1, 2, 3, 4, 8}),
      .tile = choose.of<std::size_t>({1024, 2048, 65536}),
      .prefetch = from_memory ? choose.of<std::size_t>({0, 512, 4096}) : 0,
      .stores = from_memory ? choose.of({Stores::kCached, Stores::kNonTemporal}) : Stores::kCached,
      .from_memory = from_memory,
      .software_pipelined = choose.one_in(2)};
}

/// Tries cases, one seed after the other, until this test's share of the time is over.
template <typename Case>
void fuzz() {
  constexpr double kTests = 6;
  using Clock = std::chrono::steady_clock;
  const std::chrono::duration<double> time(environment("ADDNORM_FUZZ_SECONDS", 1.2) / kTests);
  auto seed = static_cast<std::uint64_t>(environment("ADDNORM_FUZZ_SEED", 1));
  const std::string usual(instruction_set());
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
      use_instruction_set(name);
      omp_set_num_threads(1 + static_cast<int>(seed % 3));
      const std::optional<Plan> plan = any_plan(seed);
      force_plan(plan);
      Case other = fresh;
      other.run();
      force_plan({});
      EXPECT_TRUE(other.same_outputs(first))
          << "other bits with " << name << ", " << (plan ? describe(*plan) : "the usual plan");
    }
    omp_set_num_threads(threads);
    use_instruction_set(usual);
    ++seed;
  } while (Clock::now() - start < time && !::testing::Test::HasFailure());
  ::testing::Test::RecordProperty("last_seed", std::to_string(seed - 1));
}

TEST(Fuzz, RowsOfFloat32) {
  fuzz<RowsCase<float, float>>();
}
TEST(Fuzz, RowsOfBFloat16) {
  fuzz<RowsCase<BFloat16, BFloat16>>();
}
TEST(Fuzz, RowsOfFloat16) {
  fuzz<RowsCase<Float16, Float16>>();
}
TEST(Fuzz, RowsOfFloat32AndBFloat16) {
  fuzz<RowsCase<float, BFloat16>>();
}
TEST(Fuzz, RowsOfFloat32AndFloat16) {
  fuzz<RowsCase<float, Float16>>();
}
TEST(Fuzz, Channels) {
  fuzz<ChannelsCase>();
}

}  // namespace
}  // namespace addnorm::kernels
