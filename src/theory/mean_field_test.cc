#include "theory/mean_field.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <string>

#include "addnorm/error.h"

namespace addnorm::theory {
namespace {

WideStack wide_stack(const std::string& placement, std::size_t layers) {
  return {
      .placements = parse_placements(placement, layers), .tokens = 8, .d_model = 256, .d_ff = 512};
}

double power_after(const std::string& placement, std::size_t layers) {
  WideStack stack = wide_stack(placement, layers);
  stack.d_ff = stack.d_model;
  stack.norm.epsilon = 0;
  return predict(stack, {1, 0}, {1, 0})
      .at({layers - 1, SublayerKind::kFeedForward, Point::kSum})
      .value.power;
}

TEST(MeanField, GivesWhatThePapersSay) {
  for (const std::size_t layers : {1U, 6U, 12U, 48U}) {
    const double l = static_cast<double>(layers);
    // Xiong et al. 2020, lemma 2: bounds of the stream of pre-norm.
    EXPECT_GE(power_after("pre", layers), 1 + l / 2);
    EXPECT_LE(power_after("pre", layers), 1 + 3 * l / 2);
    // Lemma 2: 3/2 before post-norm's second norm.
    EXPECT_NEAR(power_after("post", layers), 1.5, 1e-12);
    // Every normalized branch adds 1.
    EXPECT_NEAR(power_after("reordered", layers), 1 + 2 * l, 1e-9);
    EXPECT_NEAR(power_after("sandwich", layers), 1 + 2 * l, 1e-9);
    // Without residual or norm: ReLU halves, attention averages 8 independent tokens once.
    EXPECT_NEAR(power_after("plain", layers) / (std::pow(2, -l) / 8), 1, 1e-9);
    EXPECT_EQ(power_after("rezero", layers), 1);
  }
}

TEST(MeanField, OfReluIsTheArcCosineKernel) {
  // A token's power halves; of two independent tokens the overlap is 1/(2π) of the power.
  WideStack stack = wide_stack("none", 1);
  stack.d_ff = stack.d_model;
  const Site branch{0, SublayerKind::kFeedForward, Point::kBranch};
  stack.tokens = 1'000'000'000;  // attention adds nothing to independent ones
  const TokenMoments f = predict(stack, {1, 0}, {1, 0}).at(branch).value;
  EXPECT_NEAR(f.power, 0.5, 1e-6);
  EXPECT_NEAR(f.overlap, 0.5 / std::numbers::pi, 1e-6);
  // Equal tokens stay equal.
  const TokenMoments equal = predict(stack, {1, 1}, {1, 0}).at(branch).value;
  EXPECT_NEAR(equal.cosine(), 1, 1e-6);
}

TEST(MeanField, GradientsHaveTheOrdersOfTheorem1) {
  // Xiong et al. 2020: the gradient of the last layer's weights does not depend on depth for
  // post-norm, and falls as 1/√L for pre-norm.
  auto last_gradient = [](const std::string& placement, std::size_t layers) {
    return std::sqrt(
        predict(wide_stack(placement, layers), {1, 0}, {1, 0}).down_gradient[layers - 1]);
  };
  EXPECT_NEAR(last_gradient("post", 6) / last_gradient("post", 48), 1, 0.05);
  EXPECT_NEAR(last_gradient("pre", 6) / last_gradient("pre", 48), std::sqrt(8.0), 0.4);
}

TEST(MeanField, NamesTheLayerThatHasNoSuchSite) {
  const StackMoments moments = predict(wide_stack("post", 2), {1, 0}, {1, 0});
  EXPECT_THROW(moments.at({0, SublayerKind::kFeedForward, Point::kBefore}), Error);
}

}  // namespace
}  // namespace addnorm::theory
