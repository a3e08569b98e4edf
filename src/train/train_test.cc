#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "addnorm/error.h"
#include "nn/initialize.h"
#include "support/gradient_check.h"
#include "train/cross_entropy.h"
#include "train/trainer.h"

namespace addnorm {
namespace {

using ::testing::HasSubstr;

TEST(CrossEntropy, OfEqualLogitsIsTheLogarithmOfTheirNumber) {
  Matrix<double> logits(2, 5);
  const std::vector<std::int32_t> targets{0, 4};
  EXPECT_NEAR(cross_entropy<double>(logits, targets, {}), std::log(5.0), 1e-15);
}

TEST(CrossEntropy, HasTheGradientOfCentralDifferences) {
  Matrix<double> logits(3, 7);
  TorchGenerator(4).fill_normal(logits.flat(), 0, 3);
  const std::vector<std::int32_t> targets{6, 0, 3};
  Matrix<double> gradient(3, 7);
  cross_entropy<double>(logits, targets, gradient);
  auto loss = [&] { return cross_entropy<double>(logits, targets, {}); };
  EXPECT_LE(testing::gradient_error(logits.flat(), gradient.flat(), loss), 1e-8);
}

TEST(CrossEntropy, StaysFiniteForLogitsThatOverflowExp) {
  Matrix<float> logits(1, 3);
  logits(0, 0) = 1e4F;
  const std::vector<std::int32_t> targets{1};
  EXPECT_FLOAT_EQ(static_cast<float>(cross_entropy<float>(logits, targets, {})), 1e4F);
}

TEST(CrossEntropy, RejectsATargetOutsideTheVocabulary) {
  Matrix<float> logits(1, 3);
  const std::vector<std::int32_t> targets{3};
  EXPECT_THROW(cross_entropy<float>(logits, targets, {}), Error);
}

TEST(AdamW, FollowsTheAlgorithmOfLoshchilovAndHutter) {
  Parameter<double> weight(1, 2, ParameterRole::kWeight, 1.0);
  Parameter<double> gamma(1, 1, ParameterRole::kNorm, 1.0);
  const AdamWOptions options{.beta1 = 0.8, .beta2 = 0.9, .epsilon = 1e-3, .weight_decay = 0.1};
  AdamW<double> adamw({{"weight", &weight}, {"gamma", &gamma}}, options);
  double p = 1;
  double m = 0;
  double v = 0;
  for (int t = 1; t <= 3; ++t) {
    const double g = 0.5 * t;
    weight.gradient.fill(g);
    gamma.gradient.fill(g);
    adamw.step(0.01);
    m = 0.8 * m + 0.2 * g;
    v = 0.9 * v + 0.1 * g * g;
    const double update =
        m / (1 - std::pow(0.8, t)) / (std::sqrt(v / (1 - std::pow(0.9, t))) + 1e-3);
    p -= 0.01 * (update + 0.1 * p);
    EXPECT_NEAR(weight.value(0, 1), p, 1e-14);
  }
  EXPECT_GT(gamma.value(0, 0), weight.value(0, 0)) << "norms do not decay";
}

TEST(LearningRate, GrowsLinearlyToItsPeakAndStays) {
  const LearningRate rate{.peak = 0.4, .warm_up = 4};
  EXPECT_DOUBLE_EQ(rate.at(0), 0.1);
  EXPECT_DOUBLE_EQ(rate.at(3), 0.4);
  EXPECT_DOUBLE_EQ(rate.at(1000), 0.4);
  EXPECT_DOUBLE_EQ(LearningRate{.peak = 0.4}.at(0), 0.4);
}

std::string alphabet(std::size_t size) {
  std::string text(size, ' ');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + i % 8);
  return text;
}

TEST(ByteText, TargetsAreTheInputsOneByteLater) {
  const ByteText text(alphabet(1000), 10);
  TorchGenerator generator(0);
  std::vector<std::int32_t> inputs(40);
  std::vector<std::int32_t> targets(40);
  text.sample(generator, inputs, targets);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(targets[i], 'a' + (inputs[i] - 'a' + 1) % 8);
  }
}

TEST(ByteText, KeepsItsLastTenthForValidation) {
  std::string text(1000, 'a');
  text.replace(900, 100, 100, 'b');
  const ByteText bytes(text, 10);
  TorchGenerator generator(0);
  std::vector<std::int32_t> inputs(500);
  std::vector<std::int32_t> targets(500);
  bytes.sample(generator, inputs, targets);
  EXPECT_THAT(inputs, ::testing::Each('a'));
  EXPECT_THAT(targets, ::testing::Each('a'));
  bytes.validation(inputs, targets);
  EXPECT_THAT(inputs, ::testing::Each('b'));
  EXPECT_THAT(targets, ::testing::Each('b'));
}

TEST(ByteText, UnigramLossIsTheEntropyOfByteFrequencies) {
  EXPECT_NEAR(ByteText(alphabet(80000), 10).unigram_loss(), std::log(8.0), 0.01);
}

TEST(ByteText, SaysHowLongATextMustBe) {
  EXPECT_THAT([] { ByteText("too short", 64); },
              ::testing::ThrowsMessage<Error>(HasSubstr("9 bytes")));
}

Decoder<float> small_decoder() {
  Decoder<float> decoder({.block = {.d_model = 16, .n_heads = 2, .d_ff = 32, .dropout = 0.1},
                          .placements = parse_placements("pre", 2),
                          .context = 16});
  TorchGenerator generator(0);
  initialize(decoder, Initialization::kXavier, generator);
  return decoder;
}

std::vector<double> losses(std::size_t steps) {
  const ByteText text(alphabet(5000), 16);
  Decoder<float> decoder = small_decoder();
  Trainer<float> trainer(decoder, text, {.learning_rate = {1e-2, 5}, .seed = 3});
  std::vector<double> result;
  for (std::size_t i = 0; i < steps; ++i) result.push_back(trainer.step());
  result.push_back(trainer.validate(2));
  return result;
}

TEST(Trainer, LearnsATextWithoutSurprises) {
  const std::vector<double> loss = losses(60);
  EXPECT_GT(loss.front(), 4.0);
  EXPECT_LT(loss.back(), 0.1) << "each letter follows from the one before";
}

TEST(Trainer, GivesTheSameBitsEveryTime) {
  EXPECT_EQ(losses(10), losses(10));
}

TEST(Trainer, ProbingChangesNothing) {
  const ByteText text(alphabet(5000), 16);
  struct Nothing : Probe<float> {
    void forward(const Site&, MatrixView<const float>) override {}
    void backward(const Site&, MatrixView<const float>) override {}
  } probe;
  Decoder<float> probed = small_decoder();
  Decoder<float> plain = small_decoder();
  Trainer<float> with(probed, text, {.seed = 3});
  Trainer<float> without(plain, text, {.seed = 3});
  with.probe(probe);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(with.step(), without.step());
}

TEST(CrossEntropy, ChecksShapesBeforeItWrites) {
  Matrix<float> logits(2, 3);
  Matrix<float> small(1, 1);
  const std::vector<std::int32_t> targets{0, 1};
  EXPECT_THROW(cross_entropy<float>(logits, targets, small), Error);
  EXPECT_THROW(cross_entropy<float>(Matrix<float>(0, 3), {}, {}), Error);
}

}  // namespace
}  // namespace addnorm
