/// The short calls of C and C++ give the bits of the full ones.

#include <gmock/gmock.h>

#include <algorithm>
#include <vector>

#include "addnorm.h"
#include "addnorm/layer_norm.h"
#include "addnorm/matrix.h"
#include "addnorm/torch_generator.h"

namespace addnorm::short_calls_test {
namespace {

using ::testing::ElementsAreArray;

constexpr std::size_t kRows = 5, kFeatures = 37;
constexpr double kEpsilon = 0.01;

/// What one kind of call is given and what it wrote.
struct Case {
  Matrix<float> x{kRows, kFeatures}, branch{kRows, kFeatures}, dy{kRows, kFeatures};
  Matrix<float> d_sum{kRows, kFeatures}, sum{kRows, kFeatures}, y{kRows, kFeatures};
  Matrix<float> dx{kRows, kFeatures}, gamma{1, kFeatures}, beta{1, kFeatures};
  Matrix<float> d_gamma{1, kFeatures}, d_beta{1, kFeatures};
  Matrix<float> workspace{1, add_norm_workspace(kRows, kFeatures)};
  std::vector<NormStatistics<float>> statistics = std::vector<NormStatistics<float>>(kRows);

  Case() {
    TorchGenerator generator(7);
    for (Matrix<float>* m : {&x, &branch, &dy, &d_sum, &gamma, &beta, &d_gamma, &d_beta}) {
      generator.fill_uniform(m->flat(), -1, 2);
    }
  }

  addnorm_statistics_f32* c_statistics() {
    return reinterpret_cast<addnorm_statistics_f32*>(statistics.data());
  }
  NormGradients<float> gradients() {
    return {.gamma = d_gamma.flat(), .beta = d_beta.flat(), .workspace = workspace.flat()};
  }

  void full(NormKind kind, bool adds) {
    const NormOptions options{.kind = kind, .epsilon = kEpsilon};
    const bool centred = kind == NormKind::kLayer;
    const auto view = [](bool wanted, Matrix<float>& m) {
      return wanted ? m.view() : MatrixView<float>{};
    };
    add_norm_forward<float>(options, {.add = {.x = x, .branch = view(adds, branch)},
                                      .sum = view(adds, sum),
                                      .gamma = gamma.flat(),
                                      .beta = centred ? beta.flat() : std::span<float>{},
                                      .y = y,
                                      .statistics = statistics});
    add_norm_backward<float>(options, {.s = adds ? sum : x,
                                       .statistics = statistics,
                                       .gamma = gamma.flat(),
                                       .dy = dy,
                                       .d_residual = view(adds, d_sum),
                                       .dx = dx,
                                       .d_gamma = d_gamma.flat(),
                                       .d_beta = centred ? d_beta.flat() : std::span<float>{},
                                       .workspace = workspace.flat()});
  }
  void short_cpp(NormKind kind, bool adds) {
    const auto g = gamma.flat(), b = beta.flat();
    if (kind == NormKind::kLayer && adds) {
      add_layer_norm(x, branch, g, b, sum, y, statistics, kEpsilon);
      add_layer_norm_backward(sum, statistics, g, dy, d_sum, dx, gradients());
    } else if (kind == NormKind::kLayer) {
      layer_norm(x, g, b, y, statistics, kEpsilon);
      layer_norm_backward(x, statistics, g, dy, dx, gradients());
    } else if (adds) {
      add_rms_norm(x, branch, g, sum, y, statistics, kEpsilon);
      add_rms_norm_backward(sum, statistics, g, dy, d_sum, dx,
                            {.gamma = d_gamma.flat(), .workspace = workspace.flat()});
    } else {
      rms_norm(x, g, y, statistics, kEpsilon);
      rms_norm_backward(x, statistics, g, dy, dx,
                        {.gamma = d_gamma.flat(), .workspace = workspace.flat()});
    }
  }
  void short_c(NormKind kind, bool adds) {
    const auto ok = [](addnorm_status status) {
      EXPECT_EQ(status, ADDNORM_OK) << addnorm_last_error();
    };
    const float *g = gamma.data(), *b = beta.data();
    if (kind == NormKind::kLayer && adds) {
      ok(addnorm_add_layer_norm(kRows, kFeatures, x.data(), branch.data(), g, b, kEpsilon,
                                sum.data(), y.data(), c_statistics()));
    } else if (kind == NormKind::kLayer) {
      ok(addnorm_layer_norm(kRows, kFeatures, x.data(), g, b, kEpsilon, y.data(), c_statistics()));
    } else if (adds) {
      ok(addnorm_add_rms_norm(kRows, kFeatures, x.data(), branch.data(), g, kEpsilon, sum.data(),
                              y.data(), c_statistics()));
    } else {
      ok(addnorm_rms_norm(kRows, kFeatures, x.data(), g, kEpsilon, y.data(), c_statistics()));
    }
    const float* const s = adds ? sum.data() : x.data();
    const float* const d = adds ? d_sum.data() : nullptr;
    if (kind == NormKind::kLayer) {
      ok(addnorm_add_layer_norm_backward(kRows, kFeatures, s, c_statistics(), g, dy.data(), d,
                                         dx.data(), d_gamma.data(), d_beta.data(),
                                         workspace.data()));
    } else {
      ok(addnorm_add_rms_norm_backward(kRows, kFeatures, s, c_statistics(), g, dy.data(), d,
                                       dx.data(), d_gamma.data(), workspace.data()));
    }
  }
};

void expect_same(const Case& actual, const Case& expected) {
  EXPECT_THAT(actual.sum.flat(), ElementsAreArray(expected.sum.flat()));
  EXPECT_THAT(actual.y.flat(), ElementsAreArray(expected.y.flat()));
  EXPECT_THAT(actual.dx.flat(), ElementsAreArray(expected.dx.flat()));
  EXPECT_THAT(actual.d_gamma.flat(), ElementsAreArray(expected.d_gamma.flat()));
  EXPECT_THAT(actual.d_beta.flat(), ElementsAreArray(expected.d_beta.flat()));
}

TEST(ShortCalls, GiveTheBitsOfTheFullOnes) {
  for (const NormKind kind : {NormKind::kLayer, NormKind::kRms}) {
    for (const bool adds : {false, true}) {
      SCOPED_TRACE(::testing::Message() << "kind " << static_cast<int>(kind) << ", adds " << adds);
      Case expected, cpp, c;
      expected.full(kind, adds);
      cpp.short_cpp(kind, adds);
      c.short_c(kind, adds);
      expect_same(cpp, expected);
      expect_same(c, expected);
    }
  }
}

TEST(ShortCalls, NameThemselvesInErrors) {
  const std::vector<float> x(4);
  EXPECT_EQ(addnorm_rms_norm(1, 4, x.data(), nullptr, 1e-5, nullptr, nullptr),
            ADDNORM_INVALID_ARGUMENT);
  EXPECT_STREQ(addnorm_last_error(), "rms_norm: y is absent, must be 1 × 4");
}

/// PyTorch's native_layer_norm gives mean and rstd; its backward needs no more, nor does ours.
TEST(ShortCalls, TakeStatisticsOfOtherLibraries) {
  Case ours, others;
  ours.short_cpp(NormKind::kLayer, false);
  for (std::size_t r = 0; r < kRows; ++r) {
    const NormStatistics<float>& s = ours.statistics[r];
    others.statistics[r] = NormStatistics<float>::from(s.mean(), s.reciprocal * s.scale);
    const addnorm_statistics_f32 c = addnorm_statistics(s.mean(), s.reciprocal * s.scale);
    EXPECT_EQ(c.mean_hi, others.statistics[r].mean_hi);
    EXPECT_EQ(c.reciprocal, others.statistics[r].reciprocal);
    EXPECT_EQ(c.epsilon_ratio, others.statistics[r].epsilon_ratio);
    EXPECT_EQ(c.scale, others.statistics[r].scale);
  }
  layer_norm_backward(others.x, others.statistics, others.gamma.flat(), others.dy, others.dx);
  for (std::size_t i = 0; i < others.dx.flat().size(); ++i) {
    EXPECT_NEAR(others.dx.flat()[i], ours.dx.flat()[i], 1e-5);
  }
}

}  // namespace
}  // namespace addnorm::short_calls_test
