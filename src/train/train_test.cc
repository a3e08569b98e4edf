#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>
#include <tuple>
#include <vector>

#include "addnorm/error.h"
#include "addnorm/nn/initialize.h"
#include "addnorm/train/cross_entropy.h"
#include "support/gradient_check.h"
#include "train/trainer.h"

namespace addnorm::train {
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

/// The rows are divided among several threads; a single row stays on the caller's.
TEST(CrossEntropy, IsTheMeanOfItsRows) {
  constexpr std::size_t kRows = 500;
  Matrix<float> logits(kRows, 256), gradient(kRows, 256), of_row(1, 256);
  TorchGenerator(4).fill_normal(logits.flat(), 0, 3);
  std::vector<std::int32_t> targets(kRows);
  for (std::size_t r = 0; r < kRows; ++r) targets[r] = static_cast<std::int32_t>(r * 37 % 256);
  const double loss = cross_entropy<float>(logits, targets, gradient);
  double sum = 0;
  for (std::size_t r = 0; r < kRows; ++r) {
    sum += cross_entropy<float>(logits.view().block(r, 0, 1, 256), {&targets[r], 1}, of_row);
    for (std::size_t i = 0; i < 256; ++i) {
      ASSERT_NEAR(gradient(r, i), of_row(0, i) / kRows, 1e-9) << r << ", " << i;
    }
  }
  EXPECT_EQ(loss, sum / kRows);
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

TEST(LearningRate, FallsInALineOrHalfACosine) {
  LearningRate rate{
      .peak = 2, .warm_up = 10, .decay = Decay::kLinear, .steps = 110, .last_share = 0.1};
  EXPECT_DOUBLE_EQ(rate.at(9), 2);
  EXPECT_DOUBLE_EQ(rate.at(60), 2 * 0.55);
  EXPECT_DOUBLE_EQ(rate.at(110), 0.2);
  EXPECT_DOUBLE_EQ(rate.at(1000), 0.2);
  rate.decay = Decay::kCosine;
  EXPECT_DOUBLE_EQ(rate.at(10), 2);
  EXPECT_NEAR(rate.at(60), 2 * 0.55, 1e-15);
  EXPECT_NEAR(rate.at(35), 2 * (0.1 + 0.9 * (1 + std::sqrt(0.5)) / 2), 1e-15);
  EXPECT_DOUBLE_EQ(rate.at(110), 0.2);
  rate.steps = rate.warm_up;  // no step is left for the decay
  EXPECT_DOUBLE_EQ(rate.at(10), 2);
}

TEST(AdamW, KnowsTheNormOfAllGradients) {
  constexpr std::size_t kLong = 100'003;  // several blocks, and no multiple of any size
  Parameter<float> weight(1, kLong, ParameterRole::kWeight);
  Parameter<float> bias(1, 3, ParameterRole::kBias);
  TorchGenerator(1).fill_normal(weight.gradient.flat());
  TorchGenerator(2).fill_normal(bias.gradient.flat());
  AdamW<float> adamw({{"weight", &weight}, {"bias", &bias}}, {});
  double squares = 0;
  for (const float g : weight.gradient.flat()) squares += static_cast<double>(g) * g;
  for (const float g : bias.gradient.flat()) squares += static_cast<double>(g) * g;
  EXPECT_NEAR(adamw.gradient_norm(), std::sqrt(squares), 1e-12 * std::sqrt(squares));
  bias.gradient(0, 2) = NAN;
  EXPECT_TRUE(std::isnan(adamw.gradient_norm()));
}

TEST(AdamW, TakesAScaledGradientAsThatGradient) {
  auto after_steps = [](double gradient, double scale) {
    Parameter<double> weight(1, 1, ParameterRole::kWeight, 1.0);
    AdamW<double> adamw({{"weight", &weight}}, {.epsilon = 0.1});
    for (int t = 0; t < 3; ++t) {
      weight.gradient.fill(gradient);
      adamw.step(0.01, scale);
    }
    return weight.value(0, 0);
  };
  EXPECT_DOUBLE_EQ(after_steps(3, 0.25), after_steps(0.75, 1));
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

TEST(Trainer, AccumulatesTheGradientOfOneLargeBatch) {
  const ByteText text(alphabet(5000), 16);
  auto after_a_step = [&](std::size_t batch, std::size_t accumulate) {
    Decoder<double> decoder({.block = {.d_model = 16, .n_heads = 2, .d_ff = 32},
                             .placements = parse_placements("post", 2),
                             .context = 16});
    TorchGenerator generator(0);
    initialize(decoder, Initialization::kXavier, generator);
    Trainer<double> trainer(decoder, text, {.batch = batch, .accumulate = accumulate, .seed = 3});
    const double loss = trainer.step();
    return std::array{loss, trainer.gradient_norm(), trainer.step()};
  };
  const auto whole = after_a_step(12, 1);
  const auto parts = after_a_step(4, 3);
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(parts[i], whole[i], 1e-9) << i;
}

TEST(Trainer, ClipsALargeGradientAlone) {
  const ByteText text(alphabet(5000), 16);
  auto second_loss = [&](double clip, double epsilon) {
    Decoder<float> decoder = small_decoder();
    Trainer<float> trainer(
        decoder, text, {.learning_rate = {1e-2, 0}, .adamw = {.epsilon = epsilon}, .clip = clip});
    trainer.step();
    return trainer.step();
  };
  EXPECT_EQ(second_loss(1e6, 1), second_loss(0, 1)) << "far below the limit";
  EXPECT_GT(std::abs(second_loss(1e-3, 1) - second_loss(0, 1)), 0);
  // With a large epsilon a step is nearly proportional to the gradient: 1000 times smaller, so
  // nothing happens.
  Decoder<float> decoder = small_decoder();
  Trainer<float> still(decoder, text, {.learning_rate = {0, 0}});
  still.step();
  EXPECT_NEAR(second_loss(1e-6, 1), still.step(), 1e-5);
}

TEST(Trainer, LearnsInBFloat16AsInFloat32) {
  const ByteText text(alphabet(5000), 16);
  auto curve = [&]<typename T>(Decoder<T> decoder) {
    TorchGenerator generator(0);
    initialize(decoder, Initialization::kXavier, generator);
    Trainer<T> trainer(decoder, text, {.learning_rate = {1e-2, 5}, .seed = 3});
    std::vector<double> losses;
    losses.reserve(60);
    for (int i = 0; i < 60; ++i) losses.push_back(trainer.step());
    return losses;
  };
  const DecoderOptions options = small_decoder().options();
  const auto exact = curve(Decoder<float>(options));
  const auto mixed = curve(Decoder<BFloat16>(options));
  for (std::size_t i = 0; i < exact.size(); ++i) {
    EXPECT_NEAR(mixed[i], exact[i], 0.02 * exact[i] + 0.02) << i;
  }
}

TEST(Trainer, ValidatesAndProbesWithoutDropoutAndWithEveryBranch) {
  const ByteText text(alphabet(5000), 16);
  struct Values : Probe<float> {
    void forward(const Site&, MatrixView<const float> values) override { keep(values); }
    void backward(const Site&, MatrixView<const float> values) override { keep(values); }
    void keep(MatrixView<const float> values) {
      for (std::size_t r = 0; r < values.rows; ++r) {
        all.insert(all.end(), values.row(r).begin(), values.row(r).end());
      }
    }
    std::vector<float> all;
  };
  const auto measured = [&](double dropout, const char* placement) {
    Decoder<float> decoder({.block = {.d_model = 16, .n_heads = 2, .d_ff = 32, .dropout = dropout},
                            .placements = parse_placements(placement, 2),
                            .context = 16});
    TorchGenerator generator(0);
    initialize(decoder, Initialization::kXavier, generator);
    Trainer<float> trainer(decoder, text, {.seed = 3});
    Values values;
    const double loss = trainer.probe(values);
    return std::tuple{trainer.validate(2), loss, values.all};
  };
  const auto plain = measured(0, "pre");
  EXPECT_EQ(measured(0.5, "pre"), plain);
  EXPECT_EQ(measured(0, "stochastic-depth"), plain);
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
}  // namespace addnorm::train
