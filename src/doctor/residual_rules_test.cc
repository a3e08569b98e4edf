
#include "support/handwritten_profile.h"

namespace addnorm::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using enum SublayerKind;

TEST(Rules, SeeSumsThatDoNotPassTheirGradientOn) {
  Subject subject = sound();
  probe::SumFit& sum = sum_at(subject, 1, kAttention);
  sum.grad_to_x = sum.grad_to_branch = 1;
  EXPECT_THAT(found(subject), IsEmpty());
  sum.grad_to_x = 0;
  EXPECT_THAT(found(subject), ElementsAre("residual-detached, layer 1, attention"));
  sum.grad_to_x = 1;
  sum.grad_to_branch = 0;
  EXPECT_THAT(found(subject), ElementsAre("branch-detached, layer 1, attention"));
  sum.grad_to_branch = 0.1;
  EXPECT_THAT(found(subject), ElementsAre("gradient-factor, layer 1, attention"));
  sum.grad_to_branch = 1;
  sum.from_x = sum.grad_to_x = 0;  // what is not there needs no gradient
  EXPECT_THAT(found(subject), ElementsAre("residual-missing, layer 1, attention"));
}

TEST(Rules, SeeAResidualInsideASublayer) {
  Subject subject = sound();
  probe::SumFit& sum = sum_at(subject, 1, kFeedForward);
  sum.from_before = 0.24;
  EXPECT_THAT(found(subject), IsEmpty());
  sum.from_before = 0.26;
  EXPECT_THAT(found(subject), ElementsAre("residual-twice, layer 1, feed-forward"));
  sum.from_x = 0;  // the norm's output takes the place of the stream
  sum.from_before = 1;
  EXPECT_THAT(found(subject), ElementsAre("norm-over-stream, layer 1, feed-forward"));
}

TEST(Rules, SeeFactorsInOneSumAndTakeThemInAllForADesign) {
  Subject subject = sound();
  sum_at(subject, 1, kAttention).from_x = 0.7;
  EXPECT_THAT(found(subject), ElementsAre("residual-factor, layer 1, attention"));
  subject = sound();
  sum_at(subject, 1, kFeedForward).from_branch = 0.22;
  EXPECT_THAT(found(subject), ElementsAre("branch-factor, layer 1, feed-forward"));
  for (ProfileEntry& entry : subject.profile.entries) {
    if (entry.site.point == Point::kSum)
      entry.sum->from_branch = 0.22;  // Granite's residual_multiplier
  }
  EXPECT_THAT(found(subject), ElementsAre("branch-factor, layer 0, attention (note)",
                                          "branch-factor, layer 0, feed-forward (note)",
                                          "branch-factor, layer 1, attention (note)",
                                          "branch-factor, layer 1, feed-forward (note)"));
  subject.profile.model.placement = "scaled-branch";  // says 1/√2
  EXPECT_EQ(diagnose(subject).at(0).severity, Severity::kBroken);
}

TEST(Rules, SeeTheBranchWhoseFactorMostOthersDoNotHave) {
  Subject subject = sound();
  for (ProfileEntry& entry : subject.profile.entries) {
    if (entry.site.point == Point::kSum && entry.site.sublayer == kFeedForward) {
      entry.sum->from_branch = 0.5;  // a Conformer's
    }
  }
  ProfileEntry third = at(subject, 1, kFeedForward, Point::kSum);
  third.site.layer = 2;
  third.sum->from_branch = 1;
  subject.profile.model.n_layers = 3;
  subject.profile.entries.push_back(third);
  EXPECT_THAT(found(subject), ElementsAre("branch-factor, layer 2, feed-forward",
                                          "branch-factor, layer 0, feed-forward (note)",
                                          "branch-factor, layer 1, feed-forward (note)"));
}

TEST(Rules, SeeTheSumThatLacksTheFactorOfTheOthers) {
  Subject subject = sound();
  subject.profile.model.placement = "";
  for (const std::size_t layer : {0, 1}) {
    for (const SublayerKind sublayer : {kAttention, kFeedForward})
      sum_at(subject, layer, sublayer).from_x = 1.7;
  }
  sum_at(subject, 1, kFeedForward).from_x = 1;
  EXPECT_THAT(found(subject), ElementsAre("residual-factor, layer 1, feed-forward",
                                          "residual-factor, layer 0, attention (note)",
                                          "residual-factor, layer 0, feed-forward (note)",
                                          "residual-factor, layer 1, attention (note)"));
}

TEST(Rules, ExpectOfABranchTheFactorOfItsPlaceInTheModule) {
  Subject subject = sound();
  subject.profile.model.placement = "";
  sum_at(subject, 0, kFeedForward).from_branch = 0.5;
  sum_at(subject, 0, kAttention).from_branch = 0.5;
  subject.profile.model.layer_modules = {"layers.0", "layers.0"};  // one block of both
  subject.profile.model.n_layers = 4;
  for (std::size_t i = subject.profile.entries.size(); i-- > 0;) {
    subject.profile.entries.push_back(subject.profile.entries[i]);
    subject.profile.entries.back().site.layer += 2;
  }
  subject.profile.model.layer_modules = {"layers.0", "layers.0", "layers.1", "layers.1"};
  EXPECT_THAT(found(subject), ElementsAre("branch-factor, layer 0, attention (note)",
                                          "branch-factor, layer 0, feed-forward (note)",
                                          "branch-factor, layer 2, feed-forward (note)",
                                          "branch-factor, layer 2, attention (note)"));
}

TEST(Rules, SeeAStreamThatIsTakenFromBefore) {
  Subject subject = sound();
  probe::SumFit& sum = sum_at(subject, 1, kFeedForward);
  sum.from_x = 0;
  sum.from_earlier = 1;
  EXPECT_THAT(found(subject), ElementsAre("sublayer-input, layer 1, feed-forward"));
  sum.from_earlier = 0.5;
  EXPECT_THAT(found(subject), ElementsAre("residual-missing, layer 1, feed-forward"));
}

TEST(Rules, SeeMapsThatReadPastTheNorm) {
  Subject subject = sound();
  for (const std::size_t layer : {0, 1}) {
    for (const SublayerKind sublayer : {kAttention, kFeedForward}) {
      at(subject, layer, sublayer, Point::kBefore).rms = 1;
    }
  }
  norm_at(subject, 1, kAttention).past_norm = 0;
  EXPECT_THAT(found(subject), IsEmpty());
  norm_at(subject, 1, kAttention).past_norm = 2;
  EXPECT_THAT(found(subject), ElementsAre("sublayer-input, layer 1, attention"));
}

TEST(Rules, SeeWhatASumHoldsBesides) {
  Subject subject = sound();
  sum_at(subject, 0, kAttention).unexplained = 0.1;
  EXPECT_THAT(found(subject), ElementsAre("sum-unexplained, layer 0, attention"));
  subject.profile.model.placement = "layerscale";  // by feature: no fit of one number
  EXPECT_THAT(found(subject), IsEmpty());
}

TEST(Rules, LeaveSumsOfLayersSideBySideThatOneBranchDoesNotExplain) {
  Subject subject = sound();
  for (const SublayerKind sublayer : {kAttention, kFeedForward}) {
    at(subject, 1, sublayer, Point::kX).mean = 0.1;
    probe::SumFit& sum = sum_at(subject, 1, sublayer);
    sum.from_branch = 0;
    sum.unexplained = 0.3;  // the other branch, which the profile's author did not know of
  }
  EXPECT_THAT(found(subject), IsEmpty());
  for (const SublayerKind sublayer : {kAttention, kFeedForward}) {
    probe::SumFit& sum = sum_at(subject, 1, sublayer);
    sum.from_x = sum.unexplained = 0;  // where it was known, the residual is judged as elsewhere
    sum.from_branch = 1;
  }
  EXPECT_THAT(found(subject), ElementsAre("residual-missing, layer 1, attention",
                                          "residual-missing, layer 1, feed-forward"));
}

}  // namespace
}  // namespace addnorm::doctor
