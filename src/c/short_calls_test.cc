/// The short calls of C and C++ have the same bits as the full ones.

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "addnorm.h"
#include "addnorm/layer_norm.h"
#include "addnorm/matrix.h"
#include "addnorm/torch_generator.h"

namespace addnorm::short_calls_test {
namespace {

using ::testing::ElementsAreArray;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

constexpr std::size_t kRows = 5, kFeatures = 37;
constexpr double kEpsilon = 0.01;

/// The inputs and outputs of one kind of call.
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

/// Returns every short call of C++, with the arguments `c` and this ε or workspace.
std::vector<std::pair<std::string, std::function<void()>>> cpp_calls(Case& c, double epsilon,
                                                                     std::span<float> workspace) {
  const auto g = c.gamma.flat(), b = c.beta.flat();
  const NormGradients<float> gradients{.gamma = c.d_gamma.flat(), .workspace = workspace};
  return {
      {"layer_norm", [=, &c] { layer_norm(c.x, g, b, c.y, c.statistics, epsilon); }},
      {"rms_norm", [=, &c] { rms_norm(c.x, g, c.y, c.statistics, epsilon); }},
      {"add_layer_norm",
       [=, &c] { add_layer_norm(c.x, c.branch, g, b, c.sum, c.y, c.statistics, epsilon); }},
      {"add_rms_norm",
       [=, &c] { add_rms_norm(c.x, c.branch, g, c.sum, c.y, c.statistics, epsilon); }},
      {"layer_norm_backward",
       [=, &c] { layer_norm_backward(c.x, c.statistics, g, c.dy, c.dx, gradients); }},
      {"rms_norm_backward",
       [=, &c] { rms_norm_backward(c.x, c.statistics, g, c.dy, c.dx, gradients); }},
      {"add_layer_norm_backward",
       [=, &c] {
         add_layer_norm_backward(c.sum, c.statistics, g, c.dy, c.d_sum, c.dx, gradients);
       }},
      {"add_rms_norm_backward",
       [=, &c] { add_rms_norm_backward(c.sum, c.statistics, g, c.dy, c.d_sum, c.dx, gradients); }},
  };
}

/// Returns the short calls of C, where the backward of a norm and of Add & Norm is one call.
std::vector<std::pair<std::string, std::function<addnorm_status()>>> c_calls(Case& c,
                                                                             double epsilon) {
  const float *g = c.gamma.data(), *b = c.beta.data();
  return {
      {"layer_norm",
       [=, &c] {
         return addnorm_layer_norm(kRows, kFeatures, c.x.data(), g, b, epsilon, c.y.data(),
                                   c.c_statistics());
       }},
      {"rms_norm",
       [=, &c] {
         return addnorm_rms_norm(kRows, kFeatures, c.x.data(), g, epsilon, c.y.data(),
                                 c.c_statistics());
       }},
      {"add_layer_norm",
       [=, &c] {
         return addnorm_add_layer_norm(kRows, kFeatures, c.x.data(), c.branch.data(), g, b, epsilon,
                                       c.sum.data(), c.y.data(), c.c_statistics());
       }},
      {"add_rms_norm",
       [=, &c] {
         return addnorm_add_rms_norm(kRows, kFeatures, c.x.data(), c.branch.data(), g, epsilon,
                                     c.sum.data(), c.y.data(), c.c_statistics());
       }},
      {"add_layer_norm_backward",
       [=, &c] {
         return addnorm_add_layer_norm_backward(kRows, kFeatures, c.sum.data(), c.c_statistics(), g,
                                                c.dy.data(), c.d_sum.data(), c.dx.data(),
                                                c.d_gamma.data(), nullptr, c.workspace.data());
       }},
      {"add_rms_norm_backward",
       [=, &c] {
         return addnorm_add_rms_norm_backward(kRows, kFeatures, c.sum.data(), c.c_statistics(), g,
                                              c.dy.data(), c.d_sum.data(), c.dx.data(),
                                              c.d_gamma.data(), c.workspace.data());
       }},
  };
}

/// The mistakes are ε, a workspace, a shape, a length and absent memory.
TEST(ShortCalls, NameThemselvesInErrors) {
  const std::vector<std::function<void(Case&)>> mistakes = {
      [](Case&) {},
      [](Case& c) { c.y.resize(kRows, 3), c.dx.resize(kRows, 3); },
      [](Case& c) { c.gamma.resize(1, 3); },
      [](Case& c) { c.statistics.resize(1); },
      [](Case& c) { c.y = {}, c.dx = {}; },
  };
  for (std::size_t i = 0; i < mistakes.size(); ++i) {
    Case c;
    mistakes[i](c);
    for (const auto& [name, call] : cpp_calls(c, i == 0 ? -1 : kEpsilon, {})) {
      EXPECT_THAT(call, ThrowsMessage<Error>(StartsWith(name + ": "))) << "mistake " << i;
    }
  }
  Case c;
  for (const auto& [name, call] : cpp_calls(c, kEpsilon, c.workspace.flat())) {
    EXPECT_NO_THROW(call()) << name;
  }
}

TEST(ShortCalls, NameThemselvesInErrorsOfC) {
  for (const double epsilon : {kEpsilon, -1.0}) {
    Case c;
    if (epsilon > 0) c.y = {}, c.dx = {};
    for (const auto& [name, call] : c_calls(c, epsilon)) {
      if (epsilon < 0 && name.ends_with("backward")) continue;  // backward has no ε
      EXPECT_EQ(call(), ADDNORM_INVALID_ARGUMENT) << name;
      EXPECT_THAT(addnorm_last_error(), StartsWith(name + ": "));
    }
  }
  Case c;
  for (const auto& [name, call] : c_calls(c, kEpsilon)) {
    EXPECT_EQ(call(), ADDNORM_OK) << name << addnorm_last_error();
  }
  const float* const over = c.y.data() - 1;  // overlaps by one element
  EXPECT_EQ(addnorm_rms_norm(kRows, kFeatures, over, nullptr, kEpsilon, c.y.data(), nullptr),
            ADDNORM_INVALID_ARGUMENT);
  EXPECT_THAT(addnorm_last_error(), StartsWith("rms_norm: x and y overlap"));
}

/// The mean and rstd of PyTorch's native_layer_norm suffice for our backward, as for its own.
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
