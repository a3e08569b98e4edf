/// Rules one by one, on profiles written by hand: what they report, and where they are silent.
/// Files of their own have the rules of sums, norms, lanes, peers and checks; tests/doctor_suite.cc
/// has whole networks.

#include <cmath>

#include "support/handwritten_profile.h"

namespace addnorm::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using enum SublayerKind;

TEST(Rules, AreSilentOnWhatIsSoundOrUnknown) {
  EXPECT_THAT(found(sound()), IsEmpty());
  EXPECT_THAT(found({}), IsEmpty());
}

TEST(Rules, SayWhereNaNAppearsFirstForwardOrOnTheWayBack) {
  Subject values = sound();
  for (const std::size_t layer : {0, 1}) {  // gradients that come back through everything
    for (const SublayerKind sublayer : {kAttention, kFeedForward}) {
      at(values, layer, sublayer, Point::kSum).abs_max = INFINITY;
    }
  }
  EXPECT_THAT(found(values), ElementsAre("not-finite, layer 1, feed_forward, sum"));
  at(values, 1, kAttention, Point::kSum).rms = NAN;
  EXPECT_THAT(found(values), ElementsAre("not-finite, layer 1, attention, sum"));
}

TEST(Rules, SeeWeightsThatDoWorseThanGuessing) {
  Subject subject = sound();
  subject.loss = 4.5;
  subject.chance_loss = 3.7;
  EXPECT_THAT(found(subject), IsEmpty());  // on random tokens
  subject.alternatives = {{"1 + γ instead of γ", 4.6}};
  EXPECT_THAT(found(subject), ElementsAre("worse-than-guessing, model"));
}

TEST(Rules, SeeIdleBranchesButNotThoseThatANormMakesLarge) {
  Subject subject = sound();
  at(subject, 0, kFeedForward, Point::kBranch).rms = 1e-9;
  EXPECT_THAT(found(subject), ElementsAre("idle-sublayer, layer 0, feed-forward"));
  Subject of_lanes = subject;
  ProfileEntry second = at(of_lanes, 0, kFeedForward, Point::kSum);
  second.site.lane = 1;
  of_lanes.profile.entries.push_back(second);
  EXPECT_THAT(found(of_lanes), ElementsAre("idle-sublayer, layer 0, feed-forward"));
  at(subject, 0, kFeedForward, Point::kInside).rms = 1;
  subject.profile.model.placement = "";  // which has no norm there
  EXPECT_THAT(found(subject), IsEmpty());
}

TEST(Rules, LeaveBranchesThatBeginAtZeroAndCanLearn) {
  Subject subject = sound();
  subject.profile.model.placement = "";
  at(subject, 0, kFeedForward, Point::kBranch).rms = 0;
  ProfileEntry weight = at(subject, 0, kFeedForward, Point::kBranch);
  weight.site.point = Point::kWeight;
  weight.site.projection = Projection::kDown;
  weight.grad_rms = 1;
  subject.profile.entries.push_back(weight);
  EXPECT_THAT(found(subject), IsEmpty());
  subject.profile.entries.back().grad_rms = 0;
  EXPECT_THAT(found(subject), ElementsAre("idle-sublayer, layer 0, feed-forward"));
  at(subject, 0, kFeedForward, Point::kSum).grad_rms = 0;  // of a head that begins at 0 too
  EXPECT_THAT(found(subject), IsEmpty());
}

TEST(Rules, SeeLogitsThatGrowUntilQueriesLookAtOneKey) {
  Subject subject = sound();
  ProfileEntry& scores = at(subject, 1, kAttention, Point::kScores);
  scores.rms = 40;
  scores.abs_max = 200;
  scores.entropy = 0.05;
  EXPECT_THAT(found(subject), ElementsAre("attention-saturated, layer 1, attention (note)"));
  ProfileEntry before = scores;
  before.step = 0;
  before.rms = 1;
  subject.profile.entries.insert(subject.profile.entries.begin(), before);
  EXPECT_THAT(found(subject), ElementsAre("attention-logits-grow, layer 1, attention"));
  at(subject, 1, kAttention, Point::kScores);
  subject.profile.entries.back().entropy = 0.5;  // large, but queries look at many keys
  EXPECT_THAT(found(subject), IsEmpty());
}

TEST(Rules, CallLogitsLargeThatReachFiftyAndLookAtOneKey) {
  const auto judged = [](double largest, double entropy, double growth = 0) {
    Subject subject;
    ProfileEntry& scores = at(subject, 1, kAttention, Point::kScores);
    scores.rms = 30;
    scores.abs_max = largest;
    scores.entropy = entropy;
    if (growth > 0) {
      ProfileEntry before = scores;
      before.step = 0;
      before.rms = scores.rms / growth;
      subject.profile.entries.insert(subject.profile.entries.begin(), before);
    }
    return first_found(find_growing_scores, subject);
  };
  EXPECT_EQ(judged(51, 0.01), "attention-saturated");
  EXPECT_EQ(judged(49, 0.01), "");
  EXPECT_EQ(judged(200, 0.099), "attention-saturated");
  EXPECT_EQ(judged(200, 0.101), "");
  EXPECT_EQ(judged(200, 0.01, 3.1), "attention-logits-grow");
  EXPECT_EQ(judged(200, 0.01, 2.9), "");
}

TEST(Rules, CallABranchIdleThatFloat32CannotAdd) {
  const auto judged = [](double branch, std::optional<double> inside = {}, double x = 2) {
    Subject subject = sound();
    at(subject, 0, kAttention, Point::kX).rms = x;
    at(subject, 0, kAttention, Point::kBranch).rms = 2 * branch;
    if (inside) at(subject, 0, kAttention, Point::kInside).rms = 2 * *inside;
    return first_found(find_idle_sublayers, subject);
  };
  EXPECT_EQ(judged(0.99e-7), "idle-sublayer");
  EXPECT_EQ(judged(1.01e-7), "");
  EXPECT_EQ(judged(0, 0.99e-7), "idle-sublayer");
  EXPECT_EQ(judged(0, 1.01e-7), "");
  EXPECT_EQ(judged(0, {}, 0), "") << "no stream";
  Subject young = sound();
  at(young, 0, kAttention, Point::kBranch).rms = 0;
  at(young, 0, kAttention, Point::kBranch).gain_at_zero = 1;  // a γ of its layer begins at 0
  EXPECT_EQ(first_found(find_idle_sublayers, young), "");
}

TEST(Rules, CallAnActivationMassiveByItsSizeAndByTheMedian) {
  const auto judged = [](double largest, double median) {
    Subject subject;
    at(subject, 1, kAttention, Point::kSum).abs_max = largest;
    at(subject, 1, kAttention, Point::kSum).abs_median = median;
    return first_found(note_massive_activations, subject);
  };
  EXPECT_EQ(judged(101, 0.01), "massive-activations");
  EXPECT_EQ(judged(99, 0.01), "");
  EXPECT_EQ(judged(2000, 1.99), "massive-activations");
  EXPECT_EQ(judged(2000, 2.01), "");
}

TEST(Rules, NoteAStreamThatGrowsThreeThousandTimes) {
  const auto judged = [](double growth, std::size_t n_layers = 2) {
    Subject subject;
    subject.profile.model.n_layers = n_layers;
    at(subject, 0, kAttention, Point::kX).rms = 2;
    at(subject, n_layers - 1, kFeedForward, Point::kSum).rms = 2 * growth;
    return first_found(note_stream_growth, subject);
  };
  EXPECT_EQ(judged(3010), "stream-growth");
  EXPECT_EQ(judged(2990), "");
  EXPECT_EQ(judged(3010, 1), "");
}

TEST(Rules, NoteMassiveActivationsGrowthAndALargeEpsilon) {
  Subject subject = sound();
  at(subject, 1, kFeedForward, Point::kSum).abs_max = 2000;
  EXPECT_THAT(found(subject), ElementsAre("massive-activations, layer 1, feed-forward (note)"));
  subject = sound();
  at(subject, 1, kFeedForward, Point::kSum).rms = 6000;
  EXPECT_THAT(found(subject), ElementsAre("stream-growth, residual stream (note)"));
  subject = sound();
  subject.profile.model.eps = 1e-5;
  ProfileEntry& deviation = at(subject, 0, kAttention, Point::kDeviation);
  deviation.site.norm = NormSlot::kBefore;
  deviation.rms = 0.004;  // √(6e-6 + 1e-5)
  EXPECT_THAT(found(subject),
              ElementsAre("epsilon-large, layer 0, attention, norm before it (note)"));
}

}  // namespace
}  // namespace addnorm::doctor
