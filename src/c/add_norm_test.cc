/// The C interface to norms of rows has the same bits as the C++ functions.

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <tuple>

#include "addnorm.h"
#include "support/c_values.h"

namespace addnorm {
namespace {

using testing::c_options;
using testing::kDtype;
using testing::memory_of;
using testing::numbers;
using testing::perhaps;
using testing::same_bits;

/// Random arguments and their memory, separate for each interface.
template <typename S, typename B>
struct RowsCase {
  using V = Arithmetic<S>;

  std::size_t rows = *rc::gen::inRange<std::size_t>(0, 20);
  std::size_t cols = *rc::gen::inRange<std::size_t>(1, 70);
  std::size_t stride = cols + *rc::gen::element<std::size_t>(0, 3);
  NormOptions options =
      testing::any_options({NormKind::kLayer, NormKind::kRms, NormKind::kDyT, NormKind::kDerf},
                           cols > 1 ? std::vector{Variance::kPopulation, Variance::kUnbiased}
                                    : std::vector{Variance::kPopulation});
  Dropout dropout{*rc::gen::element(0.0, 0.3), *rc::gen::arbitrary<std::uint64_t>(), 5};
  GradientMode mode = *rc::gen::element(GradientMode::kAccumulate, GradientMode::kOverwrite);
  bool in_place = *rc::gen::arbitrary<bool>();

  std::vector<S> x = numbers<S>(rows * stride), sum = x, dx = x;
  std::vector<S> d_residual = perhaps(numbers<S>(rows * stride));
  std::vector<B> branch = numbers<B>(rows * stride), y = branch, d_branch = branch;
  std::vector<B> dy = numbers<B>(rows * stride);
  std::vector<V> skip = perhaps(numbers<V>(*rc::gen::element<std::size_t>(1, cols)));
  std::vector<V> gain = perhaps(numbers<V>(*rc::gen::element<std::size_t>(1, cols)));
  std::vector<V> gamma = perhaps(numbers<V>(cols)), beta = perhaps(numbers<V>(cols));
  std::vector<V> d_skip = perhaps(numbers<V>(*rc::gen::element<std::size_t>(1, cols)));
  std::vector<V> d_gain = perhaps(numbers<V>(*rc::gen::element<std::size_t>(1, cols)));
  std::vector<V> d_gamma = perhaps(numbers<V>(cols)), d_beta = perhaps(numbers<V>(cols));
  std::vector<V> alpha = of_squash(), shift = of_squash();
  std::vector<V> d_alpha = of_squash(), d_shift = of_squash();
  std::vector<V> workspace = numbers<V>(norm_workspace(options, rows, cols));
  std::vector<NormStatistics<V>> statistics =
      std::vector<NormStatistics<V>>(norm_sets(options, rows, cols));

  RowsCase() {
    if (*rc::gen::arbitrary<bool>()) return;
    branch.clear();
    d_gain.clear();
    in_place = false;
  }

  std::vector<V> of_squash() const {
    return squashes(options.kind) ? perhaps(numbers<V>(1)) : std::vector<V>();
  }
  S* sum_place() { return in_place ? x.data() : sum.data(); }
  B* y_place() { return in_place ? branch.data() : y.data(); }
  auto outputs() const {
    return std::tie(x, sum, dx, branch, y, d_branch, d_skip, d_gain, d_gamma, d_beta, d_alpha,
                    d_shift, statistics);
  }

  template <typename T>
  MatrixView<T> view(T* data) const {
    return {data, rows, cols, stride};
  }
  template <typename T>
  MatrixView<const T> view(const std::vector<T>& values) const {
    if (values.empty() && rows > 0) return {};
    return {values.data(), rows, cols, stride};
  }
  static Scale<V> scale(const std::vector<V>& values) {
    if (values.size() == 1) return {.constant = values[0]};
    return {.vector = values};
  }

  void run_cpp() {
    const ResidualAdd<S, B> add{view(x), view(branch), scale(skip), scale(gain), dropout};
    residual_add_backward<S, B>({.add = add,
                                 .d_sum = view(sum),
                                 .d_branch = view(d_branch.data()),
                                 .d_skip = d_skip,
                                 .d_gain = d_gain});
    residual_add(add, view(sum.data()));
    add_norm_forward<S, B>(options, {.add = add,
                                     .sum = view(sum_place()),
                                     .gamma = gamma,
                                     .beta = beta,
                                     .alpha = alpha,
                                     .shift = shift,
                                     .y = view(y_place()),
                                     .statistics = statistics});
    add_norm_backward<S, B>(options, {.s = view(sum),
                                      .statistics = statistics,
                                      .gamma = gamma,
                                      .alpha = alpha,
                                      .shift = shift,
                                      .dy = view(dy),
                                      .d_residual = view(d_residual),
                                      .skip = scale(skip),
                                      .dx = view(dx.data()),
                                      .d_gamma = d_gamma,
                                      .d_beta = d_beta,
                                      .d_alpha = d_alpha,
                                      .d_shift = d_shift,
                                      .workspace = workspace,
                                      .parameter_gradients = mode});
  }

  /// Returns the fields that three structs share.
  template <typename Args>
  Args residual_args() {
    Args args{};
    args.size = sizeof args;
    args.dtype = kDtype<S, B>;
    args.rows = rows;
    args.features = cols;
    args.add.x = memory_of(x);
    args.add.branch = memory_of(branch);
    args.add.x_stride = args.add.branch_stride = stride;
    args.add.skip = memory_of(skip);
    args.add.skip_count = skip.size();
    args.add.gain = memory_of(gain);
    args.add.gain_count = gain.size();
    args.add.dropout_probability = dropout.probability;
    args.add.dropout_seed = dropout.seed;
    args.add.dropout_offset = dropout.offset;
    return args;
  }
  void run_c() {
    const addnorm_norm_options norm = c_options(options);

    auto back = residual_args<addnorm_residual_add_backward_args>();
    back.d_sum = memory_of(sum);
    back.d_branch = memory_of(d_branch);
    back.d_sum_stride = back.d_branch_stride = stride;
    back.d_skip = memory_of(d_skip);
    back.d_skip_count = d_skip.size();
    back.d_gain = memory_of(d_gain);
    back.d_gain_count = d_gain.size();
    ASSERT_EQ(addnorm_residual_add_backward(&back), ADDNORM_OK) << addnorm_last_error();

    auto add = residual_args<addnorm_residual_add_args>();
    add.sum = memory_of(sum);
    add.sum_stride = stride;
    ASSERT_EQ(addnorm_residual_add(&add), ADDNORM_OK) << addnorm_last_error();

    auto forward = residual_args<addnorm_add_norm_forward_args>();
    forward.norm = &norm;
    forward.sum = sum_place();
    forward.y = y_place();
    forward.sum_stride = forward.y_stride = stride;
    forward.gamma = memory_of(gamma);
    forward.beta = memory_of(beta);
    forward.statistics = memory_of(statistics);
    forward.alpha = memory_of(alpha);
    forward.shift = memory_of(shift);
    ASSERT_EQ(addnorm_add_norm_forward(&forward), ADDNORM_OK) << addnorm_last_error();

    const addnorm_add_norm_backward_args backward = {
        .size = sizeof backward,
        .dtype = kDtype<S, B>,
        .parameter_gradients = static_cast<std::int32_t>(mode),
        .rows = rows,
        .features = cols,
        .norm = &norm,
        .s = memory_of(sum),
        .s_stride = stride,
        .statistics = memory_of(statistics),
        .gamma = memory_of(gamma),
        .dy = memory_of(dy),
        .dy_stride = stride,
        .d_residual = memory_of(d_residual),
        .d_residual_stride = stride,
        .skip = memory_of(skip),
        .skip_count = skip.size(),
        .dx = memory_of(dx),
        .dx_stride = stride,
        .d_gamma = memory_of(d_gamma),
        .d_beta = memory_of(d_beta),
        .workspace = memory_of(workspace),
        .workspace_size = workspace.size(),
        .alpha = memory_of(alpha),
        .shift = memory_of(shift),
        .d_alpha = memory_of(d_alpha),
        .d_shift = memory_of(d_shift),
    };
    ASSERT_EQ(addnorm_add_norm_backward(&backward), ADDNORM_OK) << addnorm_last_error();
  }
};

template <typename Pair>
class CAddNorm : public ::testing::Test {};
using Pairs = ::testing::Types<std::pair<float, float>, std::pair<double, double>,
                               std::pair<BFloat16, BFloat16>, std::pair<Float16, Float16>,
                               std::pair<float, BFloat16>, std::pair<float, Float16>>;
TYPED_TEST_SUITE(CAddNorm, Pairs);

TYPED_TEST(CAddNorm, GivesTheBitsOfTheCppFunctions) {
  EXPECT_TRUE(rc::check([] {
    RowsCase<typename TypeParam::first_type, typename TypeParam::second_type> cpp;
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

TEST(CAddNormWorkspace, IsThatOfTheCppFunction) {
  EXPECT_EQ(addnorm_add_norm_workspace(100, 30), add_norm_workspace(100, 30));
}

}  // namespace
}  // namespace addnorm
