#include <cmath>

#include "support/handwritten_profile.h"

namespace addnorm::doctor {
namespace {

using enum SublayerKind;

/// A stack before training: its only γ is 1.
Subject untrained(const char* placement, std::size_t n_layers = 2) {
  Subject subject;
  subject.profile.model = {.d_model = 8, .n_layers = n_layers, .placement = placement};
  at(subject, {0, kAttention, Point::kGamma, NormSlot::kBefore}).mean = 1;
  subject.profile.entries.front().std = 0;
  at(subject, 0, kAttention, Point::kX);
  at(subject, n_layers - 1, kFeedForward, Point::kSum);
  return subject;
}

TEST(InitializationRules, JudgeTheRatioOfTheFirstGradientToTheLast) {
  Subject subject = untrained("pre");
  at(subject, 1, kFeedForward, Point::kSum).grad_rms = 2;
  const auto judged = [&](double ratio) {
    at(subject, 0, kAttention, Point::kX).grad_rms = 2 * ratio;
    return first_found(find_lost_gradients, subject);
  };
  EXPECT_EQ(judged(1.01e-3), "");
  EXPECT_EQ(judged(0.99e-3), "gradient-vanishes");
  EXPECT_EQ(judged(0.99e4), "");
  EXPECT_EQ(judged(1.01e4), "gradient-explodes");
  const Finding finding = findings_of(find_lost_gradients, subject).at(0);
  EXPECT_DOUBLE_EQ(finding.measure.of(subject), 1.01e4);
  for (const double sound : {1.01e-3, 0.99e4}) EXPECT_TRUE(finding.measure.is_sound(sound));
  for (const double lost : {0.99e-3, 1.01e4}) EXPECT_FALSE(finding.measure.is_sound(lost));
  subject.profile.entries.front().std = 0.1;  // it was trained
  EXPECT_EQ(judged(1.01e4), "");
}

TEST(InitializationRules, JudgeTheGradientOfASingleLayer) {
  Subject subject = untrained("pre", 1);
  at(subject, 0, kFeedForward, Point::kSum).grad_rms = 1;
  at(subject, 0, kAttention, Point::kX).grad_rms = 1e-4;
  EXPECT_EQ(first_found(find_lost_gradients, subject), "gradient-vanishes");
}

TEST(InitializationRules, SeeTokensThatBecomeAlikeWithoutAResidual) {
  const auto judged = [](double first, double last, const char* placement = "plain") {
    Subject subject = untrained(placement);
    at(subject, 0, kAttention, Point::kX).token_cosine = first;
    at(subject, 1, kFeedForward, Point::kSum).token_cosine = last;
    return first_found(find_collapsed_tokens, subject);
  };
  EXPECT_EQ(judged(0.1, 0.991), "tokens-collapse");
  EXPECT_EQ(judged(0.1, 0.989), "");
  EXPECT_EQ(judged(0.89, 0.991), "tokens-collapse");
  EXPECT_EQ(judged(0.91, 0.991), "");
  EXPECT_EQ(judged(0.1, 0.991, "pre"), "");
  Subject subject = untrained("plain");
  at(subject, 0, kAttention, Point::kX).token_cosine = 0.1;
  at(subject, 1, kFeedForward, Point::kSum).token_cosine = 1;
  const Measure measure = findings_of(find_collapsed_tokens, subject).at(0).measure;
  EXPECT_TRUE(measure.is_sound(0.989));
  EXPECT_FALSE(measure.is_sound(0.991));
}

TEST(InitializationRules, ExpectTheScaleOfGpt2InDeepStacks) {
  const auto judged = [](std::size_t n_layers, double ratio) {
    Subject subject = untrained("pre", n_layers);
    subject.profile.model.model_type = "gpt2";
    const auto weight = [&](Projection projection) -> ProfileEntry& {
      return at(subject, {0, kFeedForward, Point::kWeight, NormSlot::kNone, projection});
    };
    weight(Projection::kUp).std = 0.02;
    weight(Projection::kDown).std = 0.02 * ratio;
    return first_found(find_unscaled_projections, subject);
  };
  // √(1/√(2·8)) = 1/2 lies between the scaled and the unscaled size.
  EXPECT_EQ(judged(8, 0.495), "");
  EXPECT_EQ(judged(8, 0.505), "unscaled-projection");
  EXPECT_EQ(judged(2, 1), "unscaled-projection");
  EXPECT_EQ(judged(1, 1), "");
}

}  // namespace
}  // namespace addnorm::doctor
