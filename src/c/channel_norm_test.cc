/// The C interface to norms over channels has the same bits as the C++ functions.

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
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
template <typename T>
struct ChannelsCase {
  std::size_t samples = *rc::gen::inRange<std::size_t>(1, 5);
  std::size_t channels = 2 * *rc::gen::inRange<std::size_t>(1, 5);
  std::size_t positions = *rc::gen::inRange<std::size_t>(2, 40);
  NormOptions options =
      testing::any_options({NormKind::kBatch, NormKind::kInstance, NormKind::kGroup},
                           {Variance::kPopulation, Variance::kUnbiased});
  std::size_t size = samples * channels * positions;
  bool in_place = *rc::gen::arbitrary<bool>();
  bool adds = *rc::gen::arbitrary<bool>();  // sum = x + branch, dx = d_residual + …
  int dx_is = *rc::gen::inRange(0, adds ? 4 : 3);
  bool overwrites = *rc::gen::arbitrary<bool>();

  std::vector<T> branch = numbers<T>(size), sum = branch, d_residual = numbers<T>(size);
  std::vector<T> x = numbers<T>(size), y = x, dy = numbers<T>(size), dx = dy;
  std::vector<T> gamma = perhaps(numbers<T>(channels)), beta = perhaps(numbers<T>(channels));
  std::vector<T> d_gamma = perhaps(numbers<T>(channels)), d_beta = perhaps(numbers<T>(channels));
  std::vector<T> mean = numbers<T>(channels), variance = std::vector<T>(channels, 1);
  std::vector<T> evaluated = x, evaluated_dx = dy;
  std::vector<NormStatistics<T>> statistics, running;
  std::vector<T> workspace;

  ChannelsCase() {
    options.groups = *rc::gen::element<std::size_t>(1, 2);
    statistics.resize(norm_sets(options, samples, channels * positions, positions));
    running.resize(channels);
    workspace.resize(norm_workspace(options, samples, channels * positions, positions));
  }

  bool is_batch() const { return options.kind == NormKind::kBatch; }
  std::vector<T>& y_place() { return in_place ? x : y; }
  std::vector<T>& s() { return adds ? sum : x; }
  std::vector<T>& dx_place() {
    return *std::array<std::vector<T>*, 4>{&dx, &dy, &s(), &d_residual}[dx_is];
  }
  auto outputs() const {
    return std::tie(x, y, dy, dx, sum, d_residual, d_gamma, d_beta, mean, variance, evaluated,
                    evaluated_dx, statistics, running);
  }
  MatrixView<T> rows(std::vector<T>& values) const {
    return {values.data(), samples, channels * positions};
  }

  AddNormForward<T> cpp_forward(std::vector<T>& to, std::vector<NormStatistics<T>>& by) {
    return {.add = {.x = rows(x)},
            .gamma = gamma,
            .beta = beta,
            .y = rows(to),
            .statistics = by,
            .positions = positions,
            .workspace = workspace};
  }
  AddNormBackward<T> cpp_backward(std::vector<T>& to, std::vector<NormStatistics<T>>& by) {
    return {.s = rows(x),
            .statistics = by,
            .gamma = gamma,
            .dy = rows(dy),
            .dx = rows(to),
            .workspace = workspace,
            .positions = positions};
  }
  void run_cpp() {
    if (is_batch()) {
      const RunningStatistics<T> memory{.mean = mean, .variance = variance};
      running_to_norm_statistics<T>(options, memory, running);
      AddNormForward<T> forward = cpp_forward(evaluated, running);
      AddNormBackward<T> backward = cpp_backward(evaluated_dx, running);
      forward.statistics_from = backward.statistics_from = StatisticsFrom::kGiven;
      add_norm_forward(options, forward);
      add_norm_backward(options, backward);
    }
    AddNormForward<T> forward = cpp_forward(y_place(), statistics);
    if (adds) forward.add.branch = rows(branch), forward.sum = rows(sum);
    add_norm_forward(options, forward);
    AddNormBackward<T> backward = cpp_backward(dx_place(), statistics);
    backward.s = rows(s());
    if (adds) backward.d_residual = rows(d_residual);
    if (overwrites) backward.parameter_gradients = GradientMode::kOverwrite;
    backward.d_gamma = d_gamma;
    backward.d_beta = d_beta;
    add_norm_backward(options, backward);
    if (is_batch()) {
      update_running_statistics<T>(options, samples * positions, statistics,
                                   {.mean = mean, .variance = variance});
    }
  }

  addnorm_add_norm_forward_args forward_args(const addnorm_norm_options* norm, std::vector<T>& to,
                                             std::vector<NormStatistics<T>>& by) {
    return {.size = sizeof(addnorm_add_norm_forward_args),
            .dtype = kDtype<T, T>,
            .rows = samples,
            .features = channels * positions,
            .norm = norm,
            .add = {.x = x.data()},
            .gamma = memory_of(gamma),
            .beta = memory_of(beta),
            .y = to.data(),
            .statistics = by.data(),
            .positions = positions,
            .workspace = workspace.data(),
            .workspace_size = workspace.size()};
  }
  addnorm_add_norm_backward_args backward_args(const addnorm_norm_options* norm, std::vector<T>& to,
                                               std::vector<NormStatistics<T>>& by) {
    return {.size = sizeof(addnorm_add_norm_backward_args),
            .dtype = kDtype<T, T>,
            .rows = samples,
            .features = channels * positions,
            .norm = norm,
            .s = x.data(),
            .statistics = by.data(),
            .gamma = memory_of(gamma),
            .dy = dy.data(),
            .dx = to.data(),
            .workspace = workspace.data(),
            .workspace_size = workspace.size(),
            .positions = positions};
  }
  void run_c() {
    const addnorm_norm_options norm = c_options(options);
    addnorm_running_statistics_args memory = {.size = sizeof memory,
                                              .dtype = kDtype<T, T>,
                                              .channels = channels,
                                              .norm = &norm,
                                              .mean = mean.data(),
                                              .variance = variance.data(),
                                              .statistics = running.data(),
                                              .momentum = 0.1,
                                              .count = samples * positions};
    if (is_batch()) {
      auto forward = forward_args(&norm, evaluated, running);
      auto backward = backward_args(&norm, evaluated_dx, running);
      forward.statistics_from = backward.statistics_from = ADDNORM_STATISTICS_GIVEN;
      ASSERT_EQ(addnorm_running_to_norm_statistics(&memory), ADDNORM_OK) << addnorm_last_error();
      ASSERT_EQ(addnorm_add_norm_forward(&forward), ADDNORM_OK) << addnorm_last_error();
      ASSERT_EQ(addnorm_add_norm_backward(&backward), ADDNORM_OK) << addnorm_last_error();
    }
    auto forward = forward_args(&norm, y_place(), statistics);
    if (adds) forward.add.branch = branch.data(), forward.sum = sum.data();
    ASSERT_EQ(addnorm_add_norm_forward(&forward), ADDNORM_OK) << addnorm_last_error();
    auto backward = backward_args(&norm, dx_place(), statistics);
    backward.s = s().data();
    if (adds) backward.d_residual = d_residual.data();
    if (overwrites) backward.parameter_gradients = ADDNORM_GRADIENT_OVERWRITE;
    backward.d_gamma = memory_of(d_gamma);
    backward.d_beta = memory_of(d_beta);
    ASSERT_EQ(addnorm_add_norm_backward(&backward), ADDNORM_OK) << addnorm_last_error();
    if (is_batch()) {
      memory.statistics = statistics.data();
      ASSERT_EQ(addnorm_update_running_statistics(&memory), ADDNORM_OK) << addnorm_last_error();
    }
  }
};

template <typename T>
class CChannelNorm : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(CChannelNorm, Types);

TYPED_TEST(CChannelNorm, GivesTheBitsOfTheCppFunctions) {
  EXPECT_TRUE(rc::check([] {
    ChannelsCase<TypeParam> cpp;
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

TYPED_TEST(CChannelNorm, SizesAreThoseOfTheCppFunctions) {
  EXPECT_TRUE(rc::check([] {
    ChannelsCase<TypeParam> any;
    const addnorm_norm_options norm = c_options(any.options);
    std::size_t sets = 0, workspace = 0;
    RC_ASSERT(addnorm_norm_sizes(&norm, any.samples, any.channels * any.positions, any.positions,
                                 &sets, &workspace) == ADDNORM_OK);
    RC_ASSERT(sets == any.statistics.size());
    RC_ASSERT(workspace == any.workspace.size());
  }));
}

}  // namespace
}  // namespace addnorm
