#include "doctor/rules.h"
#include "support/handwritten_profile.h"

namespace addnorm::doctor {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using enum SublayerKind;

/// A stack whose sublayers read what the one before left, with a norm of queries in each layer.
Subject stack(std::size_t n_layers) {
  Subject subject;
  subject.profile.model = {.d_model = 8, .n_layers = n_layers};
  for (std::size_t l = 0; l < n_layers; ++l) {
    for (const SublayerKind sublayer : {kAttention, kFeedForward}) {
      subject.profile.entries.push_back({.site = {l, sublayer, Point::kX}});
      subject.profile.entries.push_back({.site = {l, sublayer, Point::kSum}});
    }
    subject.profile.entries.push_back(
        {.site = {l, kAttention, Point::kOutput, NormSlot::kNone, Projection::kQuery},
         .norm = probe::NormFit{.declared_eps = 1e-6}});
  }
  return subject;
}

std::vector<std::string> found_by(const Subject& subject, Rule* rule) {
  Findings findings;
  rule(subject, findings);
  return words_of(findings);
}

TEST(PeerRules, NameTheOneSublayerThatReadsAnotherStream) {
  EXPECT_THAT(found_by(stack(4), find_changed_streams), IsEmpty());
  for (const std::size_t layer : {0, 1, 3}) {
    const Site site{layer, kFeedForward, Point::kX};
    const auto expected =
        ElementsAre("stream-changed, layer " + std::to_string(layer) + ", feed-forward");
    Subject subject = stack(4);
    probe::InputFit& fit = at(subject, site).input.emplace();
    fit.from_left = 1.019;
    EXPECT_THAT(found_by(subject, find_changed_streams), IsEmpty()) << "below the threshold";
    fit.from_left = 1.021;
    EXPECT_THAT(found_by(subject, find_changed_streams), expected);
    fit.from_left = 1;
    fit.from_left_norm = 0.021;
    EXPECT_THAT(found_by(subject, find_changed_streams), expected);
  }
}

TEST(PeerRules, AccuseNoPatternOfStreamsAndNoShortStack) {
  Subject two = stack(6);
  for (const std::size_t layer : {2, 3})
    at(two, layer, kAttention, Point::kX).input = {.from_left = 2};
  EXPECT_THAT(found_by(two, find_changed_streams), IsEmpty());
  Subject small = stack(2);
  at(small, 1, kAttention, Point::kX).input = {.from_left = 2};
  EXPECT_THAT(found_by(small, find_changed_streams), IsEmpty());
}

TEST(PeerRules, NameTheOneEpsilonThatIsUnlikeItsPeers) {
  EXPECT_THAT(found_by(stack(6), find_odd_epsilon), IsEmpty());
  for (const std::size_t layer : {0, 3, 5}) {
    Subject subject = stack(6);
    const Site site{layer, kAttention, Point::kOutput, NormSlot::kNone, Projection::kQuery};
    at(subject, site).norm->declared_eps = 4.9e-6;
    EXPECT_THAT(found_by(subject, find_odd_epsilon), IsEmpty()) << "below the threshold";
    at(subject, site).norm->declared_eps = 5.1e-6;
    EXPECT_THAT(found_by(subject, find_odd_epsilon),
                ElementsAre("epsilon-odd, layer " + std::to_string(layer) +
                            ", attention, norm of queries"));
  }
  Subject two = stack(6);
  for (const std::size_t layer : {0, 5})
    at(two, {layer, kAttention, Point::kOutput, NormSlot::kNone, Projection::kQuery})
        .norm->declared_eps = 1e-3;
  EXPECT_THAT(found_by(two, find_odd_epsilon), IsEmpty());
}

}  // namespace
}  // namespace addnorm::doctor
