#include <cmath>

#include "doctor/diagnose.h"
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
  return words_of(findings_of(rule, subject));
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

TEST(PeerRules, NameTheOneSumWithAnotherFactor) {
  Subject subject = stack(6);
  for (probe::ProfileEntry& entry : subject.profile.entries)
    if (entry.site.point == Point::kSum) entry.sum = {.from_x = 1, .from_branch = 1};
  EXPECT_THAT(found_by(subject, find_odd_sums), IsEmpty());
  for (const std::size_t layer : {0, 3, 5}) {
    Subject one = subject;
    probe::SumFit& fit = *at(one, {layer, kFeedForward, Point::kSum}).sum;
    fit.from_branch = 1.099;
    EXPECT_THAT(found_by(one, find_odd_sums), IsEmpty()) << "below the threshold";
    fit.from_branch = 1.101;
    EXPECT_THAT(found_by(one, find_odd_sums),
                ElementsAre("sum-odd, layer " + std::to_string(layer) + ", feed-forward"));
  }
  Subject two = subject;
  for (const std::size_t layer : {1, 4})
    at(two, {layer, kFeedForward, Point::kSum}).sum->from_x = 0.5;
  EXPECT_THAT(found_by(two, find_odd_sums), IsEmpty());
}

TEST(PeerRules, NameTheOneNormWithAnotherScaleAndNoScaleByDepth) {
  Subject subject = stack(6);
  for (const auto& entry : stack(6).profile.entries) {
    if (entry.site.point != Point::kX) continue;
    probe::ProfileEntry norm{.site = {entry.site.layer, entry.site.sublayer, Point::kBefore}};
    norm.norm = {.divisor = probe::DivisorFit{.slope = 1}};
    subject.profile.entries.push_back(norm);
  }
  EXPECT_THAT(found_by(subject, find_odd_scales), IsEmpty());
  Subject one = subject;
  const auto scale_by = [&](double scale) {
    at(one, {2, kAttention, Point::kBefore}).norm->divisor->slope = 1 / (scale * scale);
  };
  scale_by(1.049);
  EXPECT_THAT(found_by(one, find_odd_scales), IsEmpty()) << "below the threshold";
  scale_by(1.053);  // 1/1.053 is 5 % below 1 as well
  EXPECT_THAT(found_by(one, find_odd_scales),
              ElementsAre("norm-scale-odd, layer 2, attention, norm before it"));
  EXPECT_DOUBLE_EQ(findings_of(find_odd_scales, one).at(0).measured, 1.053);
  Subject by_depth = subject;
  for (std::size_t l = 0; l < 6; ++l)
    at(by_depth, {l, kAttention, Point::kBefore}).norm->divisor->slope = double(l + 1);
  EXPECT_THAT(found_by(by_depth, find_odd_scales), IsEmpty());
}

TEST(PeerRules, YieldToTheCauseOfAnotherScale) {
  Subject subject = stack(6);
  for (const auto& entry : stack(6).profile.entries) {
    if (entry.site.point != Point::kX) continue;
    const bool is_odd = entry.site.layer == 2 && entry.site.sublayer == kAttention;
    probe::ProfileEntry norm{.site = {entry.site.layer, entry.site.sublayer, Point::kBefore}};
    norm.dtype = "float32";
    norm.norm = {
        .unexplained = 0,
        .centred = 1,
        .divisor = probe::DivisorFit{.divisor = 1,
                                     .deviation = 1,
                                     .scale = is_odd ? 1 / std::sqrt(8) : 1,
                                     .slope = is_odd ? 8 : 1}};  // Σx² in place of its mean
    subject.profile.entries.push_back(norm);
  }
  EXPECT_THAT(words_of(diagnose(subject)),
              ElementsAre("variance-divisor, layer 2, attention, norm before it"));
}

TEST(PeerRules, CompareWithAtLeastFourPeers) {
  for (const std::size_t n_layers : {4, 5}) {
    Subject subject = stack(n_layers);
    at(subject, {1, kAttention, Point::kOutput, NormSlot::kNone, Projection::kQuery})
        .norm->declared_eps = 1e-3;
    EXPECT_EQ(found_by(subject, find_odd_epsilon).size(), n_layers == 5 ? 1u : 0u);
    Subject changed = stack(n_layers);
    std::erase_if(changed.profile.entries, [](const ProfileEntry& entry) {
      return entry.site.point == Point::kX && entry.site.sublayer == kFeedForward;
    });
    at(changed, {1, kAttention, Point::kX}).input = {.from_left = 2};
    EXPECT_EQ(found_by(changed, find_changed_streams).size(), n_layers == 5 ? 1u : 0u);
  }
}

TEST(PeerRules, SayTheUsualValueAndTheNumberOfPeers) {
  for (const std::size_t layer : {0, 3}) {
    Subject subject = stack(6);
    for (ProfileEntry& entry : subject.profile.entries)
      if (entry.site.point == Point::kSum) entry.sum = {.from_x = 1, .from_branch = 1};
    at(subject, {layer, kFeedForward, Point::kSum}).sum->from_branch = 0.5;
    const Finding odd = findings_of(find_odd_sums, subject).at(0);
    EXPECT_EQ(odd.what, "the sum adds 0.5 times the branch");
    EXPECT_EQ(odd.because, "1 times in the 5 other layers");
    EXPECT_EQ(odd.expected, 1);
  }
}

TEST(PeerRules, SayWhatAChangedStreamIsMadeOf) {
  const auto said = [](double left, double norm) {
    Subject subject = stack(4);
    at(subject, {1, kFeedForward, Point::kX}).input = {.from_left = left, .from_left_norm = norm};
    return findings_of(find_changed_streams, subject).at(0).what;
  };
  constexpr auto* kOlder = "reads the input of the previous sublayer, not its sum";
  EXPECT_EQ(said(0.049, 0.049), kOlder);
  EXPECT_NE(said(0.051, 0), kOlder);
  EXPECT_NE(said(0, 0.051), kOlder);
  EXPECT_THAT(said(2, 0.0199), testing::Not(testing::HasSubstr("the output of its norm")));
  EXPECT_THAT(said(2, 0.0201), testing::HasSubstr("the output of its norm"));
}

TEST(PeerRules, AddNothingToAFindingAtTheSamePlace) {
  Subject subject = stack(6);
  const Site site{3, kAttention, Point::kOutput, NormSlot::kNone, Projection::kQuery};
  at(subject, site).norm->declared_eps = 1e-3;
  const auto with_finding = [&](std::string_view rule, const Site& place) {
    Findings findings{{.rule = rule, .site = place}};
    find_odd_epsilon(subject, findings);
    return findings.size();
  };
  EXPECT_EQ(with_finding("epsilon-size", site), 1u);
  EXPECT_EQ(with_finding("norm-kind", site), 2u);
  EXPECT_EQ(with_finding("epsilon-size", {2, kAttention, Point::kBefore}), 2u);
}

TEST(PeerRules, AddTheNormsOutputToTheStreamOfASum) {
  Subject subject = stack(6);
  for (ProfileEntry& entry : subject.profile.entries)
    if (entry.site.point == Point::kSum) entry.sum = {.from_x = 1, .from_branch = 1};
  at(subject, {2, kAttention, Point::kSum}).sum = {
      .from_x = 0.5, .from_before = 0.5, .from_branch = 1};
  EXPECT_THAT(found_by(subject, find_odd_sums), IsEmpty());
}

TEST(PeerRules, NameSumsThatAreGatedAsAWhole) {
  Subject subject = stack(2);
  EXPECT_THAT(found_by(subject, find_gated_streams), IsEmpty());
  at(subject, {1, kAttention, Point::kX}).input = {.stream_gain = 0.4};
  EXPECT_THAT(found_by(subject, find_gated_streams),
              ElementsAre("stream-gated, layer 1, attention"));
}

}  // namespace
}  // namespace addnorm::doctor
