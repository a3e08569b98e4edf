/// Runs random norms on every instruction set: all have the same bits, and match the float64
/// reference.

#include "support/fuzz.h"

#include "kernels/dropout.h"
#include "support/norm_case.h"

namespace addnorm::kernels {
namespace {

using testing::Choices;
using testing::describe;
using testing::Expected;
using testing::fuzz;
using testing::is_near;
using testing::nan_where_needed;
using testing::NormCase;
using testing::RowTruth;
using testing::same_numbers;

constexpr float kUntouched = 7;  ///< the value after the rows of outputs

/// Add & Norm and its backward with any shape, options, arguments and values.
template <typename S, typename B>
struct RowsCase {
  Choices choose;
  std::size_t rows = choose.below(choose.of<std::size_t>({6, 41}));
  std::size_t cols = 1 + choose.below(choose.of<std::size_t>({40, 400, 3000}));
  std::size_t stride = cols + choose.of<std::size_t>({0, 0, 3, 16});
  bool usual = choose.one_in(2);  ///< the case has specialized loops
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
  std::vector<B> y_alone = y;  ///< y of a call that does not keep the sum
  std::vector<float> d_gamma = std::vector<float>(gamma.size());
  std::vector<float> d_beta = std::vector<float>(beta.size());
  std::vector<float> workspace = std::vector<float>(add_norm_workspace(rows, cols));
  std::vector<NormStatistics<float>> statistics = std::vector<NormStatistics<float>>(rows);

  explicit RowsCase(std::uint64_t seed) : choose(seed) {}

  /// Returns `rows` rows made by `make_row`. NaN follows each row; the kernels must not read it.
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

  /// Checks that nothing was written after the rows.
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
          if (skip == 0) kept = 0;  // then x is ignored
          added = gain * (dropout_factor<float>(dropout, r * cols + i) * branch_row[i]);
        }
        const Expected expected{kept + added, std::abs(kept) + std::abs(added)};
        ASSERT_TRUE(is_near(s[r * stride + i], expected)) << "s " << r << ", " << i;
      }
    }
  }

  /// Returns the reference's results for the stored s, including the terms of dx besides the
  /// norm's.
  RowTruth truth(std::size_t r) const {
    const auto wide = [](const std::vector<float>& v) { return testing::to_double(v); };
    RowTruth truth({options, {1, cols}, row(s, r), wide(gamma), wide(beta)}, row(dy, r));
    const std::vector<double> past = row(d_residual, r);
    for (std::size_t i = 0; with_residual && i < cols; ++i) {
      truth.dx[i] += {skip * past[i], std::abs(skip * past[i])};
    }
    return truth;
  }

  void expect_norms() const {
    std::vector<Expected> gamma_sums(cols), beta_sums(cols);
    for (std::size_t r = 0; r < rows; ++r) {
      const RowTruth expected = truth(r);
      for (std::size_t i = 0; i < cols; ++i) {
        const std::size_t at = r * stride + i;
        ASSERT_TRUE(is_near(y[at], expected.y[i])) << "y " << r << ", " << i;
        gamma_sums[i] += expected.d_gamma[i];
        beta_sums[i] += expected.d_beta[i];
        if (expected.has_dx) {
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

/// BatchNorm, InstanceNorm or GroupNorm and its backward. Means are moderate, because the reference
/// uses plain sums.
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
