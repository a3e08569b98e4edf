/// The C interface to lanes has the same bits as the C++ functions, and rejects invalid arguments.

#include "addnorm/lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <functional>
#include <string>
#include <tuple>

#include "addnorm.h"
#include "support/c_values.h"

namespace addnorm::lanes_test {
namespace {

using testing::c_options;
using ::testing::Each;
using ::testing::HasSubstr;
using testing::kDtype;
using testing::memory_of;
using testing::numbers;
using testing::perhaps;
using testing::same_bits;

/// Random arguments and their memory, separate for each interface.
template <typename S, typename B>
struct LanesCase {
  using V = Arithmetic<S>;

  std::size_t rows = *rc::gen::inRange<std::size_t>(0, 12);
  std::size_t cols = *rc::gen::inRange<std::size_t>(2, 70);
  std::size_t stride = cols + *rc::gen::element<std::size_t>(0, 3);
  std::size_t n = *rc::gen::inRange<std::size_t>(1, 6), made = *rc::gen::element(n, 1UL, 4UL);
  std::size_t q = *rc::gen::element(0UL, 1UL, 1UL, 2UL), k = *rc::gen::element(0UL, 1UL, 1UL, 3UL);
  bool carries = made != n || *rc::gen::arbitrary<bool>();
  std::optional<NormOptions> norm;
  Dropout dropout{q == 1 ? *rc::gen::element(0.0, 0.3) : 0, *rc::gen::arbitrary<std::uint64_t>(),
                  5};
  GradientMode mode = *rc::gen::element(GradientMode::kAccumulate, GradientMode::kOverwrite);
  bool in_place = *rc::gen::arbitrary<bool>();

  std::vector<S> x = lanes<S>(n), sum = lanes<S>(made), dx = lanes<S>(n), d_sum = lanes<S>(made);
  std::vector<B> branch = lanes<B>(q), y = lanes<B>(k), dy = lanes<B>(k), d_branch = lanes<B>(q);
  std::size_t carry_rows = mix_rows(), write_rows = mix_rows(), read_rows = mix_rows();
  std::vector<V> carry = numbers<V>(carries ? carry_rows * made * n : 0);
  std::vector<V> write = numbers<V>(write_rows * made * q);
  std::vector<V> read = numbers<V>(read_rows * k * made);
  std::vector<V> d_carry = perhaps(carry), d_write = perhaps(write), d_read = perhaps(read);
  std::vector<V> gamma, beta, d_gamma, d_beta;
  std::vector<V> workspace = numbers<V>(lanes_workspace(rows, std::max(n, made), cols));
  std::vector<NormStatistics<V>> statistics;

  LanesCase() {
    if (*rc::gen::arbitrary<bool>()) d_sum.clear();
    if (*rc::gen::arbitrary<bool>()) d_branch.clear();
    if (k != 1 || *rc::gen::arbitrary<bool>()) return;
    norm = testing::any_options({NormKind::kLayer, NormKind::kRms},
                                {Variance::kPopulation, Variance::kUnbiased});
    gamma = perhaps(numbers<V>(cols)), beta = perhaps(numbers<V>(cols));
    d_gamma = perhaps(numbers<V>(cols)), d_beta = perhaps(numbers<V>(cols));
    statistics.resize(rows);
  }

  std::size_t mix_rows() const { return rows > 0 && *rc::gen::arbitrary<bool>() ? rows : 1; }
  template <typename T>
  std::vector<T> lanes(std::size_t count) const {
    return numbers<T>(rows * count * stride);
  }
  S* sum_place() { return in_place && made == n ? x.data() : sum.data(); }
  B* y_place() { return in_place && k == q ? branch.data() : y.data(); }
  S* dx_place() { return in_place && made == n && !d_sum.empty() ? d_sum.data() : dx.data(); }
  auto outputs() const {
    return std::tie(x, sum, dx, d_sum, branch, y, d_branch, d_carry, d_write, d_read, d_gamma,
                    d_beta, statistics);
  }

  template <typename T>
  LanesView<T> view(T* data, std::size_t count) const {
    return {data, rows, count, cols, count * stride, stride};
  }
  MatrixView<V> mix(std::vector<V>& values, std::size_t of_rows) const {
    if (values.empty()) return {};
    return {values.data(), of_rows, values.size() / of_rows};
  }

  LanesForward<S, B> cpp_args() {
    return {.x = view<const S>(x.data(), n),
            .branch = q == 0 ? LanesView<const B>() : view<const B>(branch.data(), q),
            .carry = mix(carry, carry_rows),
            .write = mix(write, write_rows),
            .dropout = dropout,
            .read = mix(read, read_rows),
            .norm = norm,
            .gamma = gamma,
            .statistics = statistics};
  }
  /// Backward runs first, because forward may overwrite its inputs.
  void run_cpp() {
    LanesForward<S, B> forward = cpp_args();
    if (norm) {
      std::vector<S> unused_sum = sum;
      std::vector<B> unused_y = y;
      forward.sum = view(unused_sum.data(), made);
      forward.y = view(unused_y.data(), k);
      lanes_forward(forward);
    }
    forward = cpp_args();
    lanes_backward<S, B>({.forward = forward,
                          .d_sum = view<const S>(memory_of(d_sum), made),
                          .dy = k == 0 ? LanesView<const B>() : view<const B>(dy.data(), k),
                          .dx = view(dx_place(), n),
                          .d_branch = view(memory_of(d_branch), q),
                          .d_carry = mix(d_carry, carry_rows),
                          .d_write = mix(d_write, write_rows),
                          .d_read = mix(d_read, read_rows),
                          .d_gamma = d_gamma,
                          .d_beta = d_beta,
                          .workspace = workspace,
                          .parameter_gradients = mode});
    forward.sum = view(sum_place(), made);
    forward.beta = beta;
    if (k > 0) forward.y = view(y_place(), k);
    lanes_forward(forward);
  }

  /// Returns the fields that both structs share.
  template <typename Args>
  Args c_args(const addnorm_norm_options& options) {
    Args args{};
    args.size = sizeof args;
    args.dtype = kDtype<S, B>;
    args.rows = rows;
    args.features = cols;
    args.mix = {.lanes = n,
                .made_lanes = made == n ? 0 : made,
                .branch_lanes = q == 1 ? 0 : q,
                .read_lanes = k == 1 ? 0 : k,
                .x = memory_of(x),
                .x_stride = stride,
                .branch = memory_of(branch),
                .branch_stride = stride,
                .carry = memory_of(carry),
                .carry_rows = carry_rows == 1 ? 0 : carry_rows,
                .write = memory_of(write),
                .write_rows = write_rows,
                .read = memory_of(read),
                .read_rows = read_rows,
                .dropout_probability = dropout.probability,
                .dropout_seed = dropout.seed,
                .dropout_offset = dropout.offset};
    if (norm) args.norm = &options;
    args.gamma = memory_of(gamma);
    args.statistics = memory_of(statistics);
    return args;
  }
  void run_c() {
    const addnorm_norm_options options = c_options(norm.value_or(NormOptions()));
    auto forward = c_args<addnorm_lanes_forward_args>(options);
    forward.sum_stride = forward.y_stride = stride;
    if (norm) {
      std::vector<S> unused_sum = sum;
      std::vector<B> unused_y = y;
      forward.sum = memory_of(unused_sum);
      forward.y = memory_of(unused_y);
      ASSERT_EQ(addnorm_lanes_forward(&forward), ADDNORM_OK) << addnorm_last_error();
    }

    auto backward = c_args<addnorm_lanes_backward_args>(options);
    backward.parameter_gradients = static_cast<std::int32_t>(mode);
    backward.d_sum = memory_of(d_sum);
    backward.dy = memory_of(dy);
    backward.dx = rows == 0 ? nullptr : dx_place();
    backward.d_branch = memory_of(d_branch);
    backward.d_sum_stride = backward.dy_stride = backward.dx_stride = stride;
    backward.d_branch_stride = stride;
    backward.d_carry = memory_of(d_carry);
    backward.d_write = memory_of(d_write);
    backward.d_read = memory_of(d_read);
    backward.d_gamma = memory_of(d_gamma);
    backward.d_beta = memory_of(d_beta);
    backward.workspace = memory_of(workspace);
    backward.workspace_size = workspace.size();
    ASSERT_EQ(addnorm_lanes_backward(&backward), ADDNORM_OK) << addnorm_last_error();

    forward.sum = sum_place();
    forward.beta = memory_of(beta);
    forward.y = k == 0 ? nullptr : y_place();
    ASSERT_EQ(addnorm_lanes_forward(&forward), ADDNORM_OK) << addnorm_last_error();
  }
};

template <typename Pair>
class CLanes : public ::testing::Test {};
using Pairs = ::testing::Types<std::pair<float, float>, std::pair<double, double>,
                               std::pair<BFloat16, BFloat16>, std::pair<Float16, Float16>,
                               std::pair<float, BFloat16>, std::pair<float, Float16>>;
TYPED_TEST_SUITE(CLanes, Pairs);

TYPED_TEST(CLanes, GivesTheBitsOfTheCppFunctions) {
  EXPECT_TRUE(rc::check([] {
    LanesCase<typename TypeParam::first_type, typename TypeParam::second_type> cpp;
    auto c = cpp;
    cpp.run_cpp();
    c.run_c();
    const auto expected = cpp.outputs();
    std::apply(
        [&](const auto&... actual) {
          std::apply([&](const auto&... wanted) { RC_ASSERT((same_bits(actual, wanted) && ...)); },
                     expected);
        },
        c.outputs());
  }));
}

TEST(CLanesWorkspace, IsThatOfTheCppFunction) {
  EXPECT_EQ(addnorm_lanes_workspace(100, 4, 30), lanes_workspace(100, 4, 30));
}

constexpr std::size_t kRows = 3, kLanes = 2, kFeatures = 4, kSize = kRows * kLanes * kFeatures;
constexpr std::size_t kHuge = std::numeric_limits<std::size_t>::max() / 8;

/// Valid arguments, which a test makes invalid: two lanes of ones, a branch of ones, A, b and R of
/// ones. The memory is larger than needed; arguments in the rest must not seem to overlap.
struct Common {
  std::vector<float> x = std::vector<float>(256, 1), branch = x, gamma = x;
  std::vector<float> carry = x, write = x, read = x;
  std::vector<addnorm_statistics_f32> statistics = std::vector<addnorm_statistics_f32>(kRows);
  addnorm_norm_options norm = addnorm_norm(ADDNORM_RMS_NORM);

  Common() = default;
  Common(const Common&) = delete;
  Common& operator=(const Common&) = delete;

  addnorm_lanes mix() {
    return {.lanes = kLanes,
            .x = x.data(),
            .branch = branch.data(),
            .carry = carry.data(),
            .write = write.data(),
            .read = read.data()};
  }
};
struct Forward : Common {
  std::vector<float> sum = std::vector<float>(kSize, -7), y = sum;
  addnorm_lanes_forward_args args = {.size = sizeof args,
                                     .rows = kRows,
                                     .features = kFeatures,
                                     .mix = mix(),
                                     .sum = sum.data(),
                                     .norm = &norm,
                                     .gamma = gamma.data(),
                                     .y = y.data(),
                                     .statistics = statistics.data()};
};
struct Backward : Common {
  std::vector<float> d_sum = std::vector<float>(kSize, 1), dy = d_sum;
  std::vector<float> dx = std::vector<float>(kSize, -7), d_branch = dx, d_mix = dx, d_gamma = dx;
  std::vector<float> workspace =
      std::vector<float>(addnorm_lanes_workspace(kRows, kLanes, kFeatures));
  addnorm_lanes_backward_args args = {.size = sizeof args,
                                      .rows = kRows,
                                      .features = kFeatures,
                                      .mix = mix(),
                                      .norm = &norm,
                                      .gamma = gamma.data(),
                                      .statistics = statistics.data(),
                                      .d_sum = d_sum.data(),
                                      .dy = dy.data(),
                                      .dx = dx.data(),
                                      .d_branch = d_branch.data(),
                                      .d_carry = d_mix.data(),
                                      .d_gamma = d_gamma.data(),
                                      .workspace = workspace.data(),
                                      .workspace_size = workspace.size()};
};

template <typename Case>
struct Mistake {
  std::function<void(Case&)> make;
  std::string said;
};

/// Each mistake is rejected with a message of one line, and without it the call succeeds.
template <typename Case, typename Call>
void expect_refused(const Call& call, const std::vector<Mistake<Case>>& mistakes) {
  Case right;
  EXPECT_EQ(call(&right.args), ADDNORM_OK) << addnorm_last_error();
  for (const Mistake<Case>& mistake : mistakes) {
    SCOPED_TRACE(mistake.said);
    Case spoilt;
    mistake.make(spoilt);
    EXPECT_EQ(call(&spoilt.args), ADDNORM_INVALID_ARGUMENT);
    EXPECT_THAT(addnorm_last_error(), HasSubstr(mistake.said));
    EXPECT_THAT(addnorm_last_error(), ::testing::Not(HasSubstr("\n")));
  }
}

TEST(CLanesErrors, OfForwardNameTheArgument) {
  expect_refused<Forward>(
      addnorm_lanes_forward,
      {{[](auto& c) { c.args.dtype = 6; }, "lanes_forward: dtype is 6, must be 0 to 5"},
       {[](auto& c) { c.args.mix.x = nullptr; }, "x is absent, must be 3 × 2 × 4"},
       {[](auto& c) { c.args.mix.lanes = 0; }, "x has 0 lanes of 4 features, must have some"},
       {[](auto& c) { c.args.features = 0; }, "x has 2 lanes of 0 features, must have some"},
       {[](auto& c) { c.args.mix.lanes = 17, c.args.mix.made_lanes = 2; },
        "x has 17 lanes, must have at most 16"},
       {[](auto& c) { c.args.mix.lanes = kHuge; }, "more than there is memory"},
       {[](auto& c) { c.args.mix.made_lanes = kHuge; }, "made_lanes is"},
       {[](auto& c) { c.args.mix.branch_lanes = kHuge; }, "branch_lanes is"},
       {[](auto& c) { c.args.mix.read_lanes = kHuge; }, "read_lanes is"},
       {[](auto& c) { c.args.rows = kHuge; }, "more than there is memory"},
       {[](auto& c) { c.args.rows = 8 * kHuge; }, "more than there is memory"},
       {[](auto& c) { c.args.features = kHuge; }, "more than there is memory"},
       {[](auto& c) { c.args.y_stride = kHuge; }, "more than there is memory"},
       {[](auto& c) { c.args.mix.x_stride = 3; }, "the stride of x is 3, must be at least"},
       {[](auto& c) { c.args.mix.x = reinterpret_cast<char*>(c.x.data()) + 1; },
        "x is not aligned to 4 bytes"},
       {[](auto& c) { c.args.mix.carry = reinterpret_cast<char*>(c.carry.data()) + 2; },
        "carry is not aligned"},
       {[](auto& c) { c.args.mix.carry = nullptr, c.args.mix.made_lanes = 3; },
        "made_lanes is 3, must be the 2 lanes of x where carry is NULL"},
       {[](auto& c) { c.args.mix.carry_rows = 2; }, "carry has 2 rows, must have 1 or 3"},
       {[](auto& c) { c.args.mix.branch = nullptr; }, "branch is absent, must be 3 × 1 × 4"},
       {[](auto& c) { c.args.mix.write = nullptr; }, "there is a branch, but no write"},
       {[](auto& c) { c.args.mix.read = nullptr; }, "a norm takes one read, there are 0"},
       {[](auto& c) {
          c.args.mix.read = nullptr, c.args.norm = nullptr, c.args.gamma = nullptr,
          c.args.statistics = nullptr;
        },
        "there is a y, but no read"},
       {[](auto& c) { c.args.mix.read_lanes = 2; }, "a norm takes one read, there are 2"},
       {[](auto& c) { c.args.mix.dropout_probability = 1; }, "the dropout probability is 1"},
       {[](auto& c) { c.norm.kind = ADDNORM_BATCH_NORM; }, "must be layer or rms"},
       {[](auto& c) { c.args.norm = nullptr; }, "gamma has 4 values, must have 0"},
       {[](auto& c) { c.args.sum = nullptr; }, "sum is absent, must be 3 × 2 × 4"},
       {[](auto& c) { c.args.y = nullptr; }, "y is absent, must be 3 × 1 × 4"},
       {[](auto& c) { c.args.sum = c.x.data() + 4; }, "x and sum overlap"},
       {[](auto& c) { c.args.sum = c.x.data(), c.args.mix.made_lanes = 1; }, "x and sum overlap"},
       {[](auto& c) { c.args.y = c.x.data(); }, "x and y overlap"},
       {[](auto& c) { c.args.y = c.sum.data(); }, "sum and y overlap"},
       {[](auto& c) { c.args.statistics = c.gamma.data(); }, "gamma and statistics overlap"}});
}

TEST(CLanesErrors, OfBackwardNameTheArgument) {
  expect_refused<Backward>(
      addnorm_lanes_backward,
      {{[](auto& c) { c.args.dy = nullptr; }, "lanes_backward: dy is absent, must be 3 × 1 × 4"},
       {[](auto& c) { c.args.dx = nullptr; }, "dx is absent, must be 3 × 2 × 4"},
       {[](auto& c) { c.args.statistics = nullptr; }, "statistics has 0 values, must have 3"},
       {[](auto& c) { c.args.parameter_gradients = 2; }, "parameter_gradients is 2"},
       {[](auto& c) { c.args.workspace_size = 4; }, "workspace has 4 values, must have at least"},
       {[](auto& c) { c.args.workspace = nullptr; }, "workspace is NULL, but its count is"},
       {[](auto& c) { c.args.mix.carry = nullptr; }, "there is a d_carry, but no carry"},
       {[](auto& c) { c.args.mix.branch = c.args.mix.write = nullptr; }, "d_branch is 3 × 1 × 4"},
       {[](auto& c) { c.args.d_carry = c.dx.data(); }, "dx and d_carry overlap"},
       {[](auto& c) { c.args.dx = c.x.data(); }, "x and dx overlap"},
       {[](auto& c) { c.args.d_branch = c.d_sum.data(); }, "d_sum and d_branch overlap"}});
}

TEST(CLanesErrors, OfNullStructsAreNoCrash) {
  EXPECT_EQ(addnorm_lanes_forward(nullptr), ADDNORM_INVALID_ARGUMENT);
  EXPECT_STREQ(addnorm_last_error(), "lanes_forward: args is NULL");
  EXPECT_EQ(addnorm_lanes_backward(nullptr), ADDNORM_INVALID_ARGUMENT);
  EXPECT_STREQ(addnorm_last_error(), "lanes_backward: args is NULL");
}

TEST(CLanesErrors, LeaveTheOutputsAsTheyWere) {
  Forward c;
  c.args.mix.dropout_probability = -1;
  EXPECT_EQ(addnorm_lanes_forward(&c.args), ADDNORM_INVALID_ARGUMENT);
  EXPECT_THAT(c.sum, Each(-7));
  EXPECT_THAT(c.y, Each(-7));
}

TEST(CLanesStructs, OfNewerVersionsAreTakenWhereTheyAskForNothingNew) {
  struct Newer {
    addnorm_lanes_forward_args known;
    std::uint64_t unknown;
  };
  Forward c;
  Newer newer{c.args, 0};
  newer.known.size = sizeof newer;
  EXPECT_EQ(addnorm_lanes_forward(&newer.known), ADDNORM_OK) << addnorm_last_error();
  EXPECT_THAT(c.sum, Each(3));  // two lanes and the branch
  newer.unknown = 1;
  EXPECT_EQ(addnorm_lanes_forward(&newer.known), ADDNORM_INVALID_ARGUMENT);
  EXPECT_THAT(addnorm_last_error(), HasSubstr("of a newer version, and byte"));
}

TEST(CLanesStructs, OfOlderVersionsGetDefaults) {
  Forward c;
  c.args.size = offsetof(addnorm_lanes_forward_args, statistics);
  EXPECT_EQ(addnorm_lanes_forward(&c.args), ADDNORM_OK) << addnorm_last_error();
  EXPECT_EQ(c.statistics[0].reciprocal, 0);  // not written
}

/// A read over depth, as in Attention Residuals and DenseFormer.
TEST(CLanesRead, TakesAnyNumberOfLanesWithoutASum) {
  constexpr std::size_t kMany = 40;
  std::vector<float> x(kMany * kFeatures, 1), read(kMany, 0.5F), y(kFeatures);
  const addnorm_lanes_forward_args args = {
      .size = sizeof args,
      .rows = 1,
      .features = kFeatures,
      .mix = {.lanes = kMany, .x = x.data(), .read = read.data()},
      .y = y.data()};
  ASSERT_EQ(addnorm_lanes_forward(&args), ADDNORM_OK) << addnorm_last_error();
  EXPECT_THAT(y, Each(20));
}

}  // namespace
}  // namespace addnorm::lanes_test
