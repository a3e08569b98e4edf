/// Runs random lanes on every instruction set: all have the same bits. X′ and R·X′ have the bits
/// that addnorm/lanes.h specifies, and all results match float64.

#include "addnorm/lanes.h"
#include "kernels/dropout.h"
#include "support/fuzz.h"
#include "support/norm_case.h"

namespace addnorm::kernels {
namespace {

using testing::Choices;
using testing::Expected;
using testing::fuzz;
using testing::is_near;
using testing::kOverflow;
using testing::kSubnormal;
using testing::RowTruth;
using testing::same_numbers;

/// Lanes in separate memory that begins at a cache line.
template <typename T>
class LaneMemory {
 public:
  static constexpr float kUntouched = 7;  ///< the value in the gaps of outputs
  std::size_t rows = 0, lanes = 0, cols = 0;

  LaneMemory(Choices& choose, std::size_t rows_, std::size_t lanes_, std::size_t cols_)
      : rows(rows_), lanes(lanes_), cols(cols_) {
    // lanes with whole lines allow non-temporal stores
    const std::size_t whole_lines = (cols + 31) / 32 * 32;
    const std::size_t width = choose.of({cols, whole_lines, whole_lines, cols + 3});
    const bool lane_by_lane = choose.one_in(2);
    lane_stride_ = lane_by_lane ? rows * width : width;
    row_stride_ = lane_by_lane ? width : lanes * width;
    lines_.resize((rows * lanes * width + kLineOf - 1) / kLineOf);
    std::ranges::fill(all(), T(kUntouched));
  }
  /// Makes inputs, with NaN in the gaps, which the kernels must not read.
  template <typename MakeRow>
  LaneMemory(Choices& choose, std::size_t rows_, std::size_t lanes_, std::size_t cols_,
             const MakeRow& make_row)
      : LaneMemory(choose, rows_, lanes_, cols_) {
    std::ranges::fill(all(), T(std::numeric_limits<float>::quiet_NaN()));
    for_each_row([&](std::size_t r, std::size_t i) {
      std::ranges::transform(make_row(), row(r, i).begin(), [](float value) { return T(value); });
    });
  }
  /// Makes all lanes the first one.
  void share_one_lane() { lane_stride_ = 0; }

  float number(std::size_t r, std::size_t i, std::size_t c) const {
    return static_cast<float>(row(r, i)[c]);
  }
  LanesView<T> view() {
    if (lanes == 0) return {};
    return {all().data(), rows, lanes, cols, row_stride_, lane_stride_};
  }
  std::vector<T> tight() const {
    std::vector<T> values;
    for_each_row([&](std::size_t r, std::size_t i) {
      values.insert(values.end(), row(r, i).begin(), row(r, i).end());
    });
    return values;
  }
  void take(const LaneMemory& other) {
    for_each_row([&](std::size_t r, std::size_t i) {
      std::ranges::copy(other.row(r, i), row(r, i).begin());
    });
  }
  void expect_gaps_untouched(const char* name) const {
    const auto untouched = std::ranges::count_if(
        all(), [](T value) { return static_cast<float>(value) == kUntouched; });
    ASSERT_GE(static_cast<std::size_t>(untouched) + rows * lanes * cols, all().size())
        << "behind " << name;
  }

 private:
  static constexpr std::size_t kLineOf = 64 / sizeof(T);
  struct alignas(64) Line {
    T values[kLineOf];
  };

  std::span<T> all() { return {reinterpret_cast<T*>(lines_.data()), lines_.size() * kLineOf}; }
  std::span<const T> all() const {
    return {reinterpret_cast<const T*>(lines_.data()), lines_.size() * kLineOf};
  }
  std::span<T> row(std::size_t r, std::size_t i) {
    return all().subspan(r * row_stride_ + i * lane_stride_, cols);
  }
  std::span<const T> row(std::size_t r, std::size_t i) const {
    return all().subspan(r * row_stride_ + i * lane_stride_, cols);
  }
  template <typename Body>
  void for_each_row(const Body& body) const {
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t i = 0; i < lanes; ++i) body(r, i);
    }
  }

  std::size_t row_stride_ = 0, lane_stride_ = 0;
  std::vector<Line> lines_;
};

/// The numbers of a mix, or their gradient.
struct MixMemory {
  std::size_t rows = 0, cols = 0, stride = 0;
  std::vector<float> values;

  MixMemory() = default;
  /// `cols` numbers for each row, or the same for all rows; with `lanes`, a square.
  MixMemory(Choices& choose, std::size_t stream_rows, std::size_t cols_, std::size_t lanes)
      : rows(choose.one_in(2) ? 1 : stream_rows),
        cols(cols_),
        stride(cols_ + choose.of<std::size_t>({0, 0, 5})) {
    if (cols == 0) return;
    values = choose.normals(rows * stride);
    const std::size_t form = choose.below(5);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t col = i % stride;
      // the identity, its initial value
      if (form == 0) values[i] = col % (lanes + 1) == 0 ? 1.0F : 0.0F;
      if (form == 1) values[i] = std::abs(values[i]) / static_cast<float>(lanes);
      if (form == 2 && choose.one_in(2)) values[i] = choose.of({0.0F, -0.0F});
    }
    if (choose.one_in(30)) {
      values[choose.below(values.size())] = choose.of({NAN, INFINITY, 1e30F, 1e-30F});
    }
  }
  float number(std::size_t r, std::size_t i) const {
    return values[(rows == 1 ? 0 : r) * stride + i];
  }
  MatrixView<float> view() {
    return values.empty() ? MatrixView<float>{}
                          : MatrixView<float>{values.data(), rows, cols, stride};
  }
  /// Returns memory for the gradient of this mix, or none.
  MixMemory gradient(Choices& choose) const {
    MixMemory d = *this;
    if (choose.one_in(5)) d.values.clear();
    std::ranges::fill(d.values, 7.0F);
    return d;
  }
};

/// Whether `actual` equals the expected value. Results of infinities must be infinite or NaN. Sums
/// that may overflow on their way may be anything.
template <typename T>
::testing::AssertionResult is_as(T actual, const Expected& expected) {
  if (!std::isfinite(expected.value)) {
    if (!std::isfinite(static_cast<float>(actual))) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << static_cast<float>(actual) << " is finite";
  }
  if (!(expected.terms <= kOverflow)) return ::testing::AssertionSuccess();
  return is_near(actual, expected);
}

/// Lanes forward and backward, with any shape, layout, mixes, norm and values.
template <typename S, typename B>
struct LanesCase {
  Choices choose;
  std::size_t rows = 1 + choose.below(choose.of<std::size_t>({2, 5, 20}));
  std::size_t cols = 1 + choose.below(choose.of<std::size_t>({20, 40, 300, 1500}));
  bool usual = choose.one_in(4);  ///< the case has specialized loops
  bool carries = usual || !choose.one_in(4);
  bool writes = usual || !choose.one_in(4);
  bool alone = !carries && !writes;
  std::size_t n = usual ? 4 : 1 + choose.below(alone && choose.one_in(2) ? 40 : 16);
  std::size_t made = !usual && carries ? choose.of({n, n, 1 + choose.below(16)}) : n;
  std::size_t q = usual ? 1 : writes ? choose.of({1ul, 1ul, 1 + choose.below(16)}) : 0;
  std::size_t k = usual ? 1 : choose.of({1ul, 1ul, alone ? 1ul : 0ul, 1 + choose.below(16)});
  bool norms = k == 1 && !choose.one_in(3);
  bool keeps_sum = !alone || (n <= kMostLanes && choose.one_in(2));
  bool in_place = choose.one_in(3);  ///< wherever shapes allow it
  NormOptions options =
      choose.options(choose.of({NormKind::kLayer, NormKind::kRms}), choose.one_in(2), cols > 1);
  Dropout dropout{.probability = !usual && q == 1 ? choose.of({0.0, 0.0, 0.3}) : 0,
                  .seed = choose.below(100),
                  .offset = choose.below(9)};

  LaneMemory<S> x = {choose, rows, n, cols, [&] { return choose.row(cols); }};
  LaneMemory<B> branch = {choose, rows, q, cols, [&] { return choose.row(cols); }};
  LaneMemory<S> d_sum = {choose, rows, choose.one_in(4) ? 0 : made, cols,
                         [&] { return choose.normals(cols); }};
  LaneMemory<B> dy = {choose, rows, k, cols, [&] { return choose.gradient(cols); }};
  MixMemory carry = {choose, rows, carries ? made* n : 0, n};
  MixMemory write = {choose, rows, made* q, std::max(q, 1ul)};
  MixMemory read = {choose, rows, k* made, made};
  std::vector<float> gamma = choose.normals(norms && !choose.one_in(4) ? cols : 0, 1, 0.3);
  std::vector<float> beta = choose.normals(norms && !choose.one_in(4) ? cols : 0);

  LaneMemory<S> sum = {choose, rows, keeps_sum ? made : 0, cols}, dx = {choose, rows, n, cols};
  LaneMemory<B> y = {choose, rows, k, cols};
  LaneMemory<B> d_branch = {choose, rows, choose.one_in(5) ? 0 : q, cols};
  MixMemory d_carry = carry.gradient(choose), d_write = write.gradient(choose);
  MixMemory d_read = read.gradient(choose);
  std::vector<float> d_gamma = std::vector<float>(norms && !choose.one_in(5) ? cols : 0);
  std::vector<float> d_beta = std::vector<float>(norms && !choose.one_in(5) ? cols : 0);
  std::vector<NormStatistics<float>> statistics =
      std::vector<NormStatistics<float>>(norms ? rows : 0);
  std::vector<float> workspace = std::vector<float>(lanes_workspace(rows, std::max(n, made), cols));

  explicit LanesCase(std::uint64_t seed) : choose(seed) {
    if (choose.one_in(8)) x.share_one_lane();
  }

  /// Places an input in an output's memory, and returns its view.
  template <typename T>
  LanesView<const T> over(const LaneMemory<T>& input, LaneMemory<T>& output) const {
    output.take(input);
    return output.view();
  }
  template <typename T>
  bool may_be(const LaneMemory<T>& input, const LaneMemory<T>& output) const {
    return in_place && input.lanes > 0 && input.lanes == output.lanes;
  }

  void run() {
    LanesForward<S, B> forward{.x = x.view(),
                               .branch = branch.view(),
                               .carry = carry.view(),
                               .write = write.view(),
                               .dropout = dropout,
                               .sum = sum.view(),
                               .read = read.view(),
                               .gamma = gamma,
                               .beta = beta,
                               .y = y.view(),
                               .statistics = statistics};
    if (norms) forward.norm = options;
    LanesForward<S, B> first = forward;
    if (may_be(x, sum)) first.x = over(x, sum);
    if (may_be(branch, y)) first.branch = over(branch, y);
    lanes_forward(first);
    LanesBackward<S, B> backward{.forward = forward,
                                 .d_sum = d_sum.view(),
                                 .dy = dy.view(),
                                 .dx = dx.view(),
                                 .d_branch = d_branch.view(),
                                 .d_carry = d_carry.view(),
                                 .d_write = d_write.view(),
                                 .d_read = d_read.view(),
                                 .d_gamma = d_gamma,
                                 .d_beta = d_beta,
                                 .workspace = workspace,
                                 .parameter_gradients = GradientMode::kOverwrite};
    if (may_be(d_sum, dx)) backward.d_sum = over(d_sum, dx);
    if (may_be(dy, d_branch)) backward.dy = over(dy, d_branch);
    lanes_backward(backward);
  }

  bool same_outputs(const LanesCase& other) const {
    const auto same = [](const auto& a, const auto& b) {
      return same_numbers(a.tight(), b.tight());
    };
    return same(sum, other.sum) && same(y, other.y) && same(dx, other.dx) &&
           same(d_branch, other.d_branch) && same_numbers(d_carry.values, other.d_carry.values) &&
           same_numbers(d_write.values, other.d_write.values) &&
           same_numbers(d_read.values, other.d_read.values) &&
           same_numbers(d_gamma, other.d_gamma) && same_numbers(d_beta, other.d_beta);
  }

  /// One row of X′, of dropout(F), of R·X′ and of their gradients.
  struct Row {
    std::vector<std::vector<float>> made, f, z;
    std::vector<std::vector<Expected>> dz, g;
  };

  /// Computes a row with the order and the roundings that addnorm/lanes.h promises.
  Row forward_row(std::size_t r) const {
    Row row;
    row.f.assign(q, std::vector<float>(cols));
    row.made.assign(made, std::vector<float>(cols));
    row.z.assign(k, std::vector<float>(cols));
    for (std::size_t c = 0; c < cols; ++c) {
      for (std::size_t j = 0; j < q; ++j) {
        const float value = branch.number(r, j, c);
        row.f[j][c] =
            dropout.active() ? dropout_factor<float>(dropout, r * cols + c) * value : value;
      }
      for (std::size_t p = 0; p < made; ++p) {
        float total = carries ? x.number(r, 0, c) * carry.number(r, p * n) : x.number(r, p, c);
        for (std::size_t j = 1; carries && j < n; ++j) {
          total += x.number(r, j, c) * carry.number(r, p * n + j);
        }
        for (std::size_t j = 0; j < q; ++j) total += row.f[j][c] * write.number(r, p * q + j);
        row.made[p][c] = static_cast<float>(S(total));
      }
      for (std::size_t i = 0; i < k; ++i) {
        float total = row.made[0][c] * read.number(r, i * made);
        for (std::size_t p = 1; p < made; ++p) {
          total += row.made[p][c] * read.number(r, i * made + p);
        }
        row.z[i][c] = total;
      }
    }
    return row;
  }

  std::vector<double> wide(const std::vector<float>& values) const {
    return testing::to_double(values);
  }
  /// Checks y, dz and the row's terms of the gradients of γ and β.
  void expect_read(std::size_t r, Row& row, std::vector<Expected>& gamma_sums,
                   std::vector<Expected>& beta_sums) const {
    row.dz.assign(k, std::vector<Expected>(cols));
    std::vector<double> dy_row(cols);
    for (std::size_t i = 0; i < k; ++i) {
      for (std::size_t c = 0; c < cols; ++c) {
        dy_row[c] = dy.number(r, i, c);
        row.dz[i][c] = {dy_row[c], std::abs(dy_row[c])};
        if (norms) continue;
        const std::vector<B> actual{B(y.number(r, i, c))}, expected{B(row.z[i][c])};
        ASSERT_TRUE(same_numbers(actual, expected)) << "y " << r << ", " << i << ", " << c;
      }
    }
    if (!norms) return;
    const RowTruth truth({options, {1, cols}, wide(row.z[0]), wide(gamma), wide(beta)}, dy_row);
    for (std::size_t c = 0; c < cols; ++c) {
      ASSERT_TRUE(is_near(B(y.number(r, 0, c)), truth.y[c])) << "y " << r << ", " << c;
      row.dz[0][c] = truth.dx[c];
      row.dz[0][c].terms = truth.has_dx ? truth.dx[c].terms + kSubnormal : INFINITY;
      gamma_sums[c] += truth.d_gamma[c];
      beta_sums[c] += truth.d_beta[c];
    }
  }
  /// Checks G, dX and dF.
  void expect_spread(std::size_t r, Row& row) const {
    row.g.assign(made, std::vector<Expected>(cols));
    for (std::size_t c = 0; c < cols; ++c) {
      for (std::size_t p = 0; p < made; ++p) {
        const double past = d_sum.lanes == 0 ? 0 : d_sum.number(r, p, c);
        row.g[p][c] = {past, std::abs(past) + kSubnormal};
        for (std::size_t i = 0; i < k; ++i) {
          row.g[p][c] += row.dz[i][c].times(read.number(r, i * made + p));
        }
      }
      const auto transposed = [&](const MixMemory& mix, std::size_t lanes, std::size_t j,
                                  double factor) {
        Expected total;
        for (std::size_t p = 0; p < made; ++p) {
          total += row.g[p][c].times(mix.number(r, p * lanes + j)).times(factor);
        }
        return total;
      };
      for (std::size_t j = 0; j < n; ++j) {
        const Expected expected = carries ? transposed(carry, n, j, 1) : row.g[j][c];
        ASSERT_TRUE(is_as(S(dx.number(r, j, c)), expected)) << "dx " << r << ", " << j << ", " << c;
      }
      for (std::size_t j = 0; j < d_branch.lanes; ++j) {
        const double mask = dropout_factor<float>(dropout, r * cols + c);
        ASSERT_TRUE(is_as(B(d_branch.number(r, j, c)), transposed(write, q, j, mask)))
            << "d_branch " << r << ", " << j << ", " << c;
      }
    }
  }

  using Sums = std::vector<Expected>;
  /// Adds a row's terms of the gradient of a mix: Σ over features of a[i]·b[j].
  void add_products(const std::vector<Sums>& a, const std::vector<std::vector<float>>& b,
                    std::span<Expected> to) const {
    for (std::size_t i = 0; i < a.size(); ++i) {
      for (std::size_t j = 0; j < b.size(); ++j) {
        for (std::size_t c = 0; c < cols; ++c) to[i * b.size() + j] += a[i][c].times(b[j][c]);
      }
    }
  }
  static Sums sums_for(const MixMemory& mix) { return Sums(mix.rows * mix.cols); }
  static std::span<Expected> of_row(Sums& sums, const MixMemory& mix, std::size_t r) {
    return std::span(sums).subspan(mix.rows == 1 ? 0 : r * mix.cols, mix.cols);
  }
  static void expect_sums(const MixMemory& actual, const Sums& expected, const char* name) {
    if (actual.values.empty()) return;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_TRUE(is_as(actual.number(i / actual.cols, i % actual.cols), expected[i]))
          << name << " " << i;
    }
  }
  static void expect_sums(const std::vector<float>& actual, const Sums& expected,
                          const char* name) {
    for (std::size_t i = 0; i < actual.size(); ++i) {
      ASSERT_TRUE(is_near(actual[i], expected[i])) << name << " " << i;
    }
  }

  void expect_right() const {
    Sums gamma_sums(cols), beta_sums(cols);
    Sums carry_sums = sums_for(carry), write_sums = sums_for(write), read_sums = sums_for(read);
    for (std::size_t r = 0; r < rows; ++r) {
      Row row = forward_row(r);
      for (std::size_t p = 0; p < sum.lanes; ++p) {
        for (std::size_t c = 0; c < cols; ++c) {
          const std::vector<S> actual{S(sum.number(r, p, c))}, expected{S(row.made[p][c])};
          ASSERT_TRUE(same_numbers(actual, expected)) << "sum " << r << ", " << p << ", " << c;
        }
      }
      expect_read(r, row, gamma_sums, beta_sums);
      expect_spread(r, row);
      if (::testing::Test::HasFatalFailure()) return;
      std::vector<std::vector<float>> lanes(n, std::vector<float>(cols));
      for (std::size_t j = 0; j < n; ++j) {
        for (std::size_t c = 0; c < cols; ++c) lanes[j][c] = x.number(r, j, c);
      }
      if (carries) add_products(row.g, lanes, of_row(carry_sums, carry, r));
      if (writes) add_products(row.g, row.f, of_row(write_sums, write, r));
      add_products(row.dz, row.made, of_row(read_sums, read, r));
    }
    expect_sums(d_carry, carry_sums, "d_carry");
    expect_sums(d_write, write_sums, "d_write");
    expect_sums(d_read, read_sums, "d_read");
    expect_sums(d_gamma, gamma_sums, "d_gamma");
    expect_sums(d_beta, beta_sums, "d_beta");
    sum.expect_gaps_untouched("sum");
    y.expect_gaps_untouched("y");
    dx.expect_gaps_untouched("dx");
    d_branch.expect_gaps_untouched("d_branch");
  }
  std::string text() const {
    return fmt::format("{} × {}, n {}, n′ {}, q {}, k {}, carries {}, in place {}, dropout {}, {}",
                       rows, cols, n, made, q, k, carries, in_place, dropout.probability,
                       norms ? testing::describe(options) : "no norm");
  }
};

TEST(Fuzz, LanesOfFloat32) {
  fuzz<LanesCase<float, float>>();
}
TEST(Fuzz, LanesOfBFloat16) {
  fuzz<LanesCase<BFloat16, BFloat16>>();
}
TEST(Fuzz, LanesOfFloat16) {
  fuzz<LanesCase<Float16, Float16>>();
}
TEST(Fuzz, LanesOfFloat32AndBFloat16) {
  fuzz<LanesCase<float, BFloat16>>();
}
TEST(Fuzz, LanesOfFloat32AndFloat16) {
  fuzz<LanesCase<float, Float16>>();
}

}  // namespace
}  // namespace addnorm::kernels
