#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "addnorm/error.h"
#include "support/gradient_check.h"
#include "support/norm_case.h"

namespace addnorm::kernels::channel_norm_test {
namespace {

using testing::describe;
using testing::every_option;
using testing::gradient_error;
using ::testing::HasSubstr;
using testing::NormCase;
using testing::relative_error;
using testing::same_bits;
using ::testing::ThrowsMessage;
using testing::to_double;

constexpr NormKind kChannelKinds[] = {NormKind::kBatch, NormKind::kInstance, NormKind::kGroup};

/// The same tolerances as in add_norm_test.cc.
template <typename T>
constexpr double kTolerance = std::is_same_v<T, float> ? 2e-6 : 1e-13;

template <typename T>
void expect_equals_reference(NormCase<T> c) {
  c.run();
  const auto out = c.expected();
  const auto gradients = c.expected_gradients();
  EXPECT_LE(relative_error(c.y, out.y), kTolerance<T>);
  EXPECT_LE(relative_error(c.dx, gradients.dx), kTolerance<T>);
  EXPECT_LE(relative_error(c.d_gamma, gradients.d_gamma), kTolerance<T>);
  EXPECT_LE(relative_error(c.d_beta, gradients.d_beta), kTolerance<T>);
  ASSERT_EQ(c.statistics.size(), out.mean.size());
  for (std::size_t k = 0; k < out.mean.size(); ++k) {
    const double deviation = out.deviation[k];
    EXPECT_NEAR(c.statistics[k].mean(), out.mean[k], kTolerance<T> * (1 + deviation));
    EXPECT_NEAR(c.statistics[k].deviation(), deviation, kTolerance<T> * deviation);
  }
}

template <typename T>
class ChannelNorm : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ChannelNorm, Types);

TYPED_TEST(ChannelNorm, EqualsTheReferenceForEveryOption) {
  for (const NormKind kind : kChannelKinds) {
    for (const NormOptions& options : every_option(kind)) {
      for (const int absent : {0, 1, 2, 3}) {
        SCOPED_TRACE(describe(options) + ", absent " + std::to_string(absent));
        NormCase<TypeParam> c(options, {5, 6, 7});
        if (absent & 1) c.gamma.clear();
        if (absent & 2) c.beta.clear();
        expect_equals_reference(std::move(c));
      }
    }
  }
}

TYPED_TEST(ChannelNorm, EqualsTheReferenceForEveryShape) {
  const reference::Shape shapes[] = {{2, 12, 3},  {9, 36, 1},   {1, 12, 40},
                                     {33, 60, 5}, {3, 12, 333}, {130, 12, 17}};
  for (const reference::Shape& shape : shapes) {
    SCOPED_TRACE(fmt::format("{} × {} × {}", shape.samples, shape.channels, shape.positions));
    expect_equals_reference(NormCase<TypeParam>({.kind = NormKind::kBatch}, shape));
    if (shape.positions > 1) {
      expect_equals_reference(NormCase<TypeParam>({.kind = NormKind::kInstance}, shape));
    }
    for (const std::size_t groups : {1, 3, 4}) {
      expect_equals_reference(
          NormCase<TypeParam>({.kind = NormKind::kGroup, .groups = groups}, shape));
    }
  }
}

TYPED_TEST(ChannelNorm, OneValueBecomesBeta) {
  const reference::Shape shape{1, 4, 1};  // a batch of one value
  for (const NormOptions& options :
       {NormOptions{.kind = NormKind::kBatch}, NormOptions{.kind = NormKind::kInstance},
        NormOptions{.kind = NormKind::kGroup, .groups = 4}}) {
    NormCase<TypeParam> c(options, shape);
    c.run();
    EXPECT_EQ(c.y, c.beta);
    EXPECT_EQ(c.dx, std::vector<TypeParam>(4));
  }
}

TYPED_TEST(ChannelNorm, OneGroupIsLayerNormAndOneChannelEachIsInstanceNorm) {
  using T = TypeParam;
  NormCase<T> group({.kind = NormKind::kGroup}, {4, 33, 1});
  NormCase<T> layer({.kind = NormKind::kLayer}, {4, 33, 1});
  group.run();
  layer.run();
  EXPECT_TRUE(same_bits(group.y, layer.y));
  EXPECT_TRUE(same_bits(group.dx, layer.dx));

  NormCase<T> groups({.kind = NormKind::kGroup, .groups = 6}, {4, 6, 9});
  NormCase<T> instance({.kind = NormKind::kInstance}, {4, 6, 9});
  groups.run();
  instance.run();
  EXPECT_TRUE(same_bits(groups.y, instance.y));
  EXPECT_TRUE(same_bits(groups.dx, instance.dx));
}

TYPED_TEST(ChannelNorm, OutputsMayBeTheInputsAndGradientsAreAdded) {
  using T = TypeParam;
  for (const NormKind kind : kChannelKinds) {
    NormCase<T> plain({.kind = kind}, {5, 6, 7});
    NormCase<T> c = plain;
    plain.run();
    AddNormBackward<T> backward = c.backward_args();
    backward.statistics = plain.statistics;
    backward.dx = c.matrix(c.dy);
    add_norm_backward<T>(c.options, backward);
    EXPECT_TRUE(same_bits(c.dy, plain.dx));
    AddNormForward<T> forward = c.forward_args();
    forward.y = c.matrix(c.x);
    add_norm_forward<T>(c.options, forward);
    EXPECT_TRUE(same_bits(c.x, plain.y));
    NormCase<T> over_s({.kind = kind}, {5, 6, 7});
    backward = over_s.backward_args();
    backward.statistics = plain.statistics;
    backward.dx = over_s.matrix(over_s.x);
    add_norm_backward<T>(c.options, backward);
    EXPECT_TRUE(same_bits(over_s.x, plain.dx)) << "dx may be s";

    const auto once = to_double(plain.d_gamma);
    plain.backward();
    for (std::size_t i = 0; i < once.size(); ++i) {
      EXPECT_NEAR(plain.d_gamma[i], 2 * once[i], kTolerance<T> * (1 + std::abs(once[i])));
    }
  }
}

TYPED_TEST(ChannelNorm, AddsTheResidualAsTheSeparateCallsDo) {
  using T = TypeParam;
  for (const NormKind kind : kChannelKinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    NormCase<T> separate({.kind = kind}, {5, 6, 7});
    NormCase<T> fused = separate;
    std::vector<T> branch(separate.x.rbegin(), separate.x.rend());
    std::vector<T> d_residual(separate.dy.rbegin(), separate.dy.rend());
    const ResidualAdd<T> add{.x = fused.matrix(fused.x),
                             .branch = fused.matrix(branch),
                             .skip = {.constant = T{2}},
                             .gain = {.constant = T(0.5)}};
    residual_add<T>(add, separate.matrix(separate.x));
    separate.run();
    residual_add<T>({.x = separate.matrix(d_residual),
                     .branch = separate.matrix(separate.dx),
                     .skip = {.constant = T{2}}},
                    separate.matrix(separate.dx));

    AddNormForward<T> forward = fused.forward_args();
    forward.add = add;
    forward.sum = fused.matrix(fused.x);
    add_norm_forward<T>(fused.options, forward);
    AddNormBackward<T> backward = fused.backward_args();
    backward.d_residual = backward.dx = fused.matrix(d_residual);  // in place
    backward.skip = {.constant = T{2}};
    backward.parameter_gradients = GradientMode::kOverwrite;
    std::ranges::fill(fused.d_gamma, T{9});
    std::ranges::fill(fused.d_beta, T{9});
    add_norm_backward<T>(fused.options, backward);
    EXPECT_TRUE(same_bits(fused.y, separate.y));
    EXPECT_TRUE(same_bits(d_residual, separate.dx));
    EXPECT_TRUE(same_bits(fused.d_gamma, separate.d_gamma));
    EXPECT_TRUE(same_bits(fused.d_beta, separate.d_beta));
  }
}

TYPED_TEST(ChannelNorm, NoChannelsAreNoWork) {
  using T = TypeParam;
  for (const NormKind kind : {NormKind::kBatch, NormKind::kInstance}) {
    T untouched = 9;
    const MatrixView<T> none(&untouched, 5, 0);
    add_norm_forward<T>({.kind = kind}, {.add = {.x = none}, .y = none});
    add_norm_backward<T>({.kind = kind}, {.s = none, .dy = none, .dx = none});
    EXPECT_EQ(untouched, 9);
    EXPECT_EQ(norm_workspace({.kind = kind}, 5, 0, 3), 0U);
  }
}

/// Rows that only the residual sum reads or writes may have gaps.
TYPED_TEST(ChannelNorm, RowsOfTheResidualMayStandApart) {
  using T = TypeParam;
  for (const NormKind kind : kChannelKinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    NormCase<T> tight({.kind = kind}, {5, 6, 7}), apart = tight;
    const std::vector<T> d_residual(tight.dy.rbegin(), tight.dy.rend());
    std::vector<T> sum(tight.x.size());
    Matrix<T> wide_x(5, 50), wide_residual(5, 50), wide_dx(5, 50);
    wide_dx.fill(T{9});
    for (std::size_t i = 0; i < sum.size(); ++i) {
      wide_x(i / 42, i % 42) = tight.x[i];
      wide_residual(i / 42, i % 42) = d_residual[i];
    }
    const auto part = [](Matrix<T>& wide) { return wide.view().block(0, 0, 5, 42); };
    const auto run = [&](NormCase<T>& c, const MatrixView<T>& x, MatrixView<const T> residual,
                         const MatrixView<T>& dx) {
      AddNormForward<T> forward = c.forward_args();
      forward.add.x = x;
      forward.sum = c.matrix(sum);
      add_norm_forward<T>(c.options, forward);
      AddNormBackward<T> backward = c.backward_args();
      backward.s = c.matrix(sum);
      backward.d_residual = residual;
      backward.dx = dx;
      add_norm_backward<T>(c.options, backward);
    };
    run(tight, tight.matrix(tight.x), {d_residual.data(), 5, 42}, tight.matrix(tight.dx));
    run(apart, part(wide_x), part(wide_residual), part(wide_dx));
    EXPECT_TRUE(same_bits(apart.y, tight.y));
    for (std::size_t i = 0; i < sum.size(); ++i) {
      ASSERT_EQ(wide_dx(i / 42, i % 42), tight.dx[i]) << i;
    }
    EXPECT_EQ(std::ranges::count(wide_dx.flat(), T{9}), 5 * 8) << "the gaps are not the call's";
  }
}

TEST(ChannelNormGradient, EqualsCentralDifferencesForEveryOption) {
  for (const NormKind kind : kChannelKinds) {
    for (const NormOptions& options : every_option(kind)) {
      SCOPED_TRACE(describe(options));
      NormCase<double> c(options, {3, 4, 5});
      c.run();
      auto loss = [&] {
        c.forward();
        return std::inner_product(c.y.begin(), c.y.end(), c.dy.begin(), 0.0);
      };
      EXPECT_LE(gradient_error(c.x, c.dx, loss), 1e-9);
      EXPECT_LE(gradient_error(c.gamma, c.d_gamma, loss), 1e-9);
      EXPECT_LE(gradient_error(c.beta, c.d_beta, loss), 1e-9);
    }
  }
}

TEST(RunningStatisticsTest, FollowTheBatchesByTheUnbiasedVariance) {
  const std::size_t n = 5 * 7;
  for (const Variance variance : {Variance::kPopulation, Variance::kUnbiased}) {
    NormCase<double> c({.kind = NormKind::kBatch, .variance = variance}, {5, 3, 7});
    for (double& x : c.x) x *= 1e140;  // statistics of scaled values
    std::vector<double> mean(3), running_variance(3, 1.0);
    const RunningStatistics<double> running{mean, running_variance, 0.25};
    std::vector<double> expected_mean(3), expected_variance(3, 1.0);
    for (int batch = 0; batch < 3; ++batch) {
      for (double& x : c.x) x *= 1.5;
      c.forward();
      update_running_statistics<double>(c.options, n, c.statistics, running);

      c.options.variance = Variance::kUnbiased;
      const auto out = c.expected();
      c.options.variance = variance;
      for (std::size_t k = 0; k < 3; ++k) {
        expected_mean[k] = 0.75 * expected_mean[k] + 0.25 * out.mean[k];
        expected_variance[k] = 0.75 * expected_variance[k] + 0.25 * out.variance[k];
      }
    }
    EXPECT_LE(relative_error(mean, expected_mean), 1e-13);
    EXPECT_LE(relative_error(running_variance, expected_variance), 1e-13);
  }
}

TEST(BatchNormEvaluation, IsAnAffineMapByTheRunningStatistics) {
  for (const NormOptions& options : every_option(NormKind::kBatch)) {
    SCOPED_TRACE(describe(options));
    NormCase<double> c(options, {4, 3, 5});
    std::vector<double> mean{1, -2, 0.5};
    std::vector<double> variance{4, 0.25, 1};
    running_to_norm_statistics<double>(options, {mean, variance}, c.statistics);
    auto forward = [&] {
      AddNormForward<double> args = c.forward_args();
      args.statistics_from = StatisticsFrom::kGiven;
      add_norm_forward<double>(options, args);
    };
    forward();
    for (std::size_t i = 0; i < c.x.size(); ++i) {
      const std::size_t k = i / 5 % 3;
      const double deviation = options.epsilon_at == EpsilonAt::kVariance
                                   ? std::sqrt(variance[k] + options.epsilon)
                                   : std::sqrt(variance[k]) + options.epsilon;
      const double gamma = c.gamma[k] + (options.gamma_form == GammaForm::kOnePlus ? 1 : 0);
      const double y = gamma * (c.x[i] - mean[k]) / deviation + c.beta[k];
      ASSERT_NEAR(c.y[i], options.output_scale * y, 1e-13);
    }

    AddNormBackward<double> backward = c.backward_args();
    backward.statistics_from = StatisticsFrom::kGiven;
    add_norm_backward<double>(options, backward);
    auto loss = [&] {
      forward();
      return std::inner_product(c.y.begin(), c.y.end(), c.dy.begin(), 0.0);
    };
    EXPECT_LE(gradient_error(c.x, c.dx, loss), 1e-9);
    EXPECT_LE(gradient_error(c.gamma, c.d_gamma, loss), 1e-9);
    EXPECT_LE(gradient_error(c.beta, c.d_beta, loss), 1e-9);
  }
}

/// Given statistics have a variance of their own, so the batch may have one value.
TEST(BatchNormEvaluation, TakesOneValueForEachChannel) {
  for (const Variance variance : {Variance::kPopulation, Variance::kUnbiased}) {
    NormCase<double> c({.kind = NormKind::kBatch, .epsilon = 0, .variance = variance}, {1, 3, 1});
    std::vector<double> mean{1, -2, 0.5}, of_training{4, 0.25, 1};
    running_to_norm_statistics<double>(c.options, {mean, of_training}, c.statistics);
    AddNormForward<double> forward = c.forward_args();
    AddNormBackward<double> backward = c.backward_args();
    forward.statistics_from = backward.statistics_from = StatisticsFrom::kGiven;
    add_norm_forward<double>(c.options, forward);
    add_norm_backward<double>(c.options, backward);
    for (std::size_t k = 0; k < 3; ++k) {
      const double slope = c.gamma[k] / std::sqrt(of_training[k]);
      EXPECT_NEAR(c.y[k], slope * (c.x[k] - mean[k]) + c.beta[k], 1e-13);
      EXPECT_NEAR(c.dx[k], slope * c.dy[k], 1e-13);
    }
  }
}

struct Mistake {
  const char* message;
  std::function<void(NormOptions&, AddNormBackward<float>&)> make;
};

TEST(ChannelNormErrors, BackwardNamesTheArgumentThatIsWrong) {
  std::vector<float> three(3);
  Matrix<float> wide(5, 43);
  const MatrixView<float> apart(wide.view().data, 5, 42, 43);
  const Mistake mistakes[] = {
      {"epsilon is -1", [](auto& o, auto&) { o.epsilon = -1; }},
      {"statistics are given, which is for kBatch alone",
       [](auto& o, auto& a) {
         o.kind = NormKind::kInstance;
         a.statistics_from = StatisticsFrom::kGiven;
       }},
      {"positions is 0, must divide the 42 values", [](auto&, auto& a) { a.positions = 0; }},
      {"positions is 4, must divide the 42 values", [](auto&, auto& a) { a.positions = 4; }},
      {"the rows of s stand 43 values apart", [&](auto&, auto& a) { a.s = apart; }},
      {"the rows of dy stand 43 values apart", [&](auto&, auto& a) { a.dy = apart; }},
      {"the rows of dx stand 43 values apart", [&](auto&, auto& a) { a.dx = apart; }},
      {"there are 4 groups, they must divide the 6 channels",
       [](auto& o, auto&) { o = {.kind = NormKind::kGroup, .groups = 4}; }},
      {"there are 0 groups", [](auto& o, auto&) { o = {.kind = NormKind::kGroup, .groups = 0}; }},
      {"no values to normalize", [](auto&, auto& a) { a.s.rows = a.dy.rows = a.dx.rows = 0; }},
      {"needs at least 2 values",
       [](auto& o, auto& a) {
         o.variance = Variance::kUnbiased;
         a.s.rows = a.dy.rows = a.dx.rows = a.positions = 1;
       }},
      {"dy is absent, must be 5 × 42", [](auto&, auto& a) { a.dy = {}; }},
      {"dx is absent, must be 5 × 42", [](auto&, auto& a) { a.dx = {}; }},
      {"gamma has 3 values", [&](auto&, auto& a) { a.gamma = three; }},
      {"d_gamma has 3 values", [&](auto&, auto& a) { a.d_gamma = three; }},
      {"d_beta has 3 values", [&](auto&, auto& a) { a.d_beta = three; }},
      {"statistics has 0 values", [](auto&, auto& a) { a.statistics = {}; }},
      {"workspace has 3 values, must have at least", [&](auto&, auto& a) { a.workspace = three; }}};
  for (const auto& [message, make] : mistakes) {
    NormCase<float> c({.kind = NormKind::kBatch}, {5, 6, 7});
    NormOptions options = c.options;
    AddNormBackward<float> args = c.backward_args();
    make(options, args);
    EXPECT_THAT([&] { add_norm_backward(options, args); },
                ThrowsMessage<Error>(HasSubstr(message)));
  }
}

TEST(ChannelNormErrors, ForwardAndRunningStatisticsNameTheArgumentThatIsWrong) {
  NormCase<float> c({.kind = NormKind::kBatch}, {5, 6, 7});
  std::vector<float> three(3), six(6);
  auto expect_error = [](const char* message, const std::function<void()>& call) {
    EXPECT_THAT(call, ThrowsMessage<Error>(HasSubstr(message)));
  };
  const AddNormForward<float> forward = c.forward_args();
  expect_error("y is absent, must be 5 × 42", [&, args = forward]() mutable {
    args.y = {};
    add_norm_forward(c.options, args);
  });
  Matrix<float> wide(5, 43);
  const MatrixView<float> apart(wide.view().data, 5, 42, 43);
  expect_error("the rows of x stand 43 values apart", [&, args = forward]() mutable {
    args.add.x = apart;
    add_norm_forward(c.options, args);
  });
  expect_error("the rows of y stand 43 values apart", [&, args = forward]() mutable {
    args.y = apart;
    add_norm_forward(c.options, args);
  });
  expect_error("the rows of sum stand 43 values apart", [&, args = forward]() mutable {
    args.sum = apart;
    add_norm_forward(c.options, args);
  });
  expect_error("beta has 3 values", [&, args = forward]() mutable {
    args.beta = three;
    add_norm_forward(c.options, args);
  });
  expect_error("sum is absent", [&, args = forward]() mutable {
    args.add.branch = c.matrix(c.dy);
    add_norm_forward(c.options, args);
  });
  expect_error("statistics are given, which is for kBatch alone", [&, args = forward]() mutable {
    args.statistics_from = StatisticsFrom::kGiven;
    add_norm_forward({.kind = NormKind::kInstance}, args);
  });
  expect_error("batch, instance and group norms take float or double", [&] {
    Matrix<BFloat16> x(5, 42);
    add_norm_forward<BFloat16>(c.options, {.add = {.x = x}, .y = x});
  });
  expect_error("the batch has 1 values for each channel", [&] {
    update_running_statistics<float>(c.options, 1, c.statistics, {six, six});
  });
  expect_error("running mean has 0 values", [&] {
    update_running_statistics<float>(c.options, 35, c.statistics, {{}, six});
  });
  expect_error("running variance has 3 values", [&] {
    update_running_statistics<float>(c.options, 35, c.statistics, {six, three});
  });
  expect_error("statistics has 0 values", [&] {
    running_to_norm_statistics<float>(c.options, {six, six}, {});
  });
  expect_error("running variance has 3 values", [&] {
    running_to_norm_statistics<float>(c.options, {six, three}, c.statistics);
  });
}

}  // namespace
}  // namespace addnorm::kernels::channel_norm_test
