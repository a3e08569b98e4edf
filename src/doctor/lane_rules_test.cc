/// The rules of lanes one by one, on profiles written by hand. tests/python/lanes_doctor_test.py
/// has whole networks.

#include "support/handwritten_profile.h"

namespace addnorm::doctor {
namespace {

using probe::LaneFit;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using enum SublayerKind;

constexpr std::size_t kLanes = 2;

/// Three layers of mHC whose lanes differ and whose γ has moved: all is as it should be.
Subject sound_lanes() {
  Subject subject;
  subject.profile.model = {.d_model = 8, .n_layers = 3, .n_lanes = kLanes, .lane_form = "mhc"};
  auto& entries = subject.profile.entries;
  for (const std::size_t layer : {0, 1, 2}) {
    for (const SublayerKind sublayer : {kAttention, kFeedForward}) {
      entries.push_back({.site = {layer, sublayer, Point::kX}, .rms = 1});
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        ProfileEntry sum{.site = {layer, sublayer, Point::kSum}, .rms = 1};
        sum.site.lane = lane;
        sum.sum = {.unexplained = 0};
        sum.lane = {
            .carry_in = 1, .carry_size = 0.7, .lane_spread = 0.1, .carry_out = 1, .write = 1};
        if (lane == 0) {
          sum.lane->write_gate = 2;
          sum.lane->grad_spread = sum.lane->carry_transposed = 0;
          sum.lane->coefficients = "float32";
        }
        entries.push_back(sum);
      }
    }
  }
  ProfileEntry gamma{.site = {0, kAttention, Point::kGamma}, .mean = 1, .std = 0.01};
  gamma.site.norm = NormSlot::kBefore;
  entries.push_back(gamma);
  return subject;
}

/// Changes the fits of all lanes, or those in one sublayer.
template <typename Change>
Subject with(const Change& change, std::optional<std::size_t> layer = {},
             SublayerKind sublayer = kAttention) {
  Subject subject = sound_lanes();
  for (ProfileEntry& entry : subject.profile.entries) {
    const bool is_there = !layer || (entry.site.layer == *layer && entry.site.sublayer == sublayer);
    if (entry.lane && is_there) change(*entry.lane);
  }
  return subject;
}

TEST(LaneRules, AreSilentOnWhatIsSoundOrUnknown) {
  EXPECT_THAT(found(sound_lanes()), IsEmpty());
  EXPECT_THAT(found(with([&](LaneFit& sum) {
                sum = {.carry_in = 1, .carry_size = 0.7, .lane_spread = 0.1};
              })),
              IsEmpty());
}

TEST(LaneRules, SeeWhatIsMissingInOneSublayer) {
  EXPECT_THAT(found(with(
                  [](LaneFit& sum) {
                    sum.carry_in = 0;
                    sum.carry_out = 0;
                    sum.carry_size = 0.04;
                  },
                  1)),
              ElementsAre("residual-missing, layer 1, attention"));
  EXPECT_THAT(found(with([](LaneFit& sum) { sum.write = 0.99e-3; }, 2, kFeedForward)),
              ElementsAre("branch-missing, layer 2, feed-forward"));
  EXPECT_THAT(found(with([](LaneFit& sum) { sum.write = 1.01e-3; }, 2, kFeedForward)), IsEmpty());
  EXPECT_THAT(found(with([](LaneFit& sum) { sum.write = 0; })),
              IsEmpty());  // as models whose branches begin at 0
}

TEST(LaneRules, TakeFivePercentOfALaneForNothing) {
  const auto carried = [](double size) {
    return first_found(find_wrong_sums_of_lanes,
                       with([size](LaneFit& sum) { sum.carry_size = size; }, 1));
  };
  EXPECT_EQ(carried(0.049), "residual-missing");
  EXPECT_EQ(carried(0.051), "");
  const auto unwritten_among = [](double others, std::size_t sites) {
    Subject subject = with([others](LaneFit& sum) { sum.write = others; });
    std::size_t i = 0;
    for (ProfileEntry& entry : subject.profile.entries) {
      if (entry.lane && i++ < kLanes * sites) entry.lane->write = 0;
    }
    return findings_of(find_wrong_sums_of_lanes, subject).size();
  };
  EXPECT_EQ(unwritten_among(0.051, 1), 1u);
  EXPECT_EQ(unwritten_among(0.049, 1), 0u) << "no sublayer writes much";
  EXPECT_EQ(unwritten_among(1, 2), 2u);
  EXPECT_EQ(unwritten_among(1, 3), 0u) << "half of them write nothing";
  Subject unknown = with([](LaneFit& sum) { sum.write.reset(); });
  for (ProfileEntry& entry : unknown.profile.entries) {
    if (entry.lane && entry.site.sublayer == kAttention)
      entry.lane->write = entry.site.layer == 0 ? 0 : 1;
  }
  EXPECT_THAT(findings_of(find_wrong_sums_of_lanes, unknown), IsEmpty()) << "2 of 6 are known";
}

/// Three layers of a placement whose sublayers append lanes, or add to the last one.
Subject sound_growing(const std::string& placement) {
  Subject subject;
  subject.profile.model = {.d_model = 8, .n_layers = 3, .placement = placement, .n_lanes = 7};
  for (const std::size_t layer : {0, 1, 2}) {
    for (const SublayerKind sublayer : {kAttention, kFeedForward}) {
      ProfileEntry sum{.site = {layer, sublayer, Point::kSum}, .rms = 1};
      sum.sum = {.unexplained = 0};
      const double carried = placement == "attention-residuals" ? 0 : 1;
      sum.lane = {.carry_in = carried,
                  .carry_size = carried,
                  .lane_spread = 0.1,
                  .write = 1,
                  .lanes_lost = 0};
      subject.profile.entries.push_back(sum);
    }
  }
  return subject;
}

TEST(LaneRules, CompareLanesThatGrowWithTheTable) {
  const auto changed = [](const char* placement, const auto& change) {
    Subject subject = sound_growing(placement);
    change(subject.profile.entries[2]);  // layer 1, attention
    return words_of(findings_of(find_wrong_sums_of_lanes, subject));
  };
  for (const char* placement : {"attention-residuals", "mudd", "dense-former"}) {
    EXPECT_THAT(changed(placement, [](ProfileEntry&) {}), IsEmpty());
    EXPECT_THAT(changed(placement, [](ProfileEntry& sum) { sum.lane->lanes_lost = 1; }),
                ElementsAre("residual-missing, layer 1, attention"));
    EXPECT_THAT(changed(placement, [](ProfileEntry& sum) { sum.lane->write = 1.06; }),
                ElementsAre("branch-factor, layer 1, attention"));
    EXPECT_THAT(changed(placement, [](ProfileEntry& sum) { sum.lane->write = 1.04; }), IsEmpty());
    EXPECT_THAT(changed(placement,
                        [](ProfileEntry& sum) {
                          sum.lane->write = 3;
                          sum.sum->unexplained = 0.03;
                        }),
                IsEmpty());
  }
  const auto without_carry = [](ProfileEntry& sum) { sum.lane->carry_size = 0; };
  EXPECT_THAT(changed("mudd", without_carry), ElementsAre("residual-missing, layer 1, attention"));
  EXPECT_THAT(changed("unknown", without_carry), IsEmpty()) << "the table does not say";
}

TEST(LaneRules, CompareConstantWritesWithTheTable) {
  const auto written = [](const char* placement, double first, double second) {
    Subject subject = with([](LaneFit&) {});
    subject.profile.model.placement = placement;
    subject.profile.model.lane_form.clear();
    for (ProfileEntry& entry : subject.profile.entries)
      if (entry.lane) entry.lane->write = entry.site.lane == 0 ? first : second;
    return findings_of(find_wrong_sums_of_lanes, subject).size();
  };
  EXPECT_EQ(written("x0", 1, 0), 0u);
  EXPECT_EQ(written("x0", 1, 1), 6u);
  EXPECT_EQ(written("two-lanes", 3, 3), 0u) << "they are learned";
}

TEST(LaneRules, SeeLanesWithoutGradients) {
  const auto changed = [](const auto& change) {
    Subject subject = sound_growing("mudd");
    change(subject.profile.entries[3]);
    return words_of(findings_of(find_detached_parts, subject));
  };
  EXPECT_THAT(changed([](ProfileEntry&) {}), IsEmpty());
  EXPECT_THAT(changed([](ProfileEntry& sum) { sum.lane->lanes_detached = 1; }),
              ElementsAre("residual-detached, layer 1, feed-forward"));
  EXPECT_THAT(changed([](ProfileEntry& sum) { sum.sum->grad_to_branch = 0; }),
              ElementsAre("branch-detached, layer 1, feed-forward"));
}

TEST(LaneRules, ReportOnceWhatAllSublayersHave) {
  const auto reported = [](std::size_t sites) {
    Subject subject = with([](LaneFit& sum) { sum.carry_out = sum.carry_transposed ? 1.3 : 0.7; });
    subject.profile.entries.resize(sites * (1 + kLanes));
    return words_of(findings_of(find_wrong_mhc, subject));
  };
  EXPECT_THAT(reported(1), ElementsAre("carry-not-stochastic, layer 0, attention"));
  EXPECT_THAT(reported(2), ElementsAre("carry-not-stochastic, residual stream"));
}

TEST(LaneRules, SeeLanesThatAreFolded) {
  Subject subject = sound_lanes();
  const auto fold = [&](std::size_t layer) {
    for (ProfileEntry& entry : subject.profile.entries) {
      if (entry.site == Site{layer, kAttention, Point::kX}) entry.input = {.lanes_folded = 1};
    }
  };
  fold(1);
  ASSERT_THAT(found(subject), ElementsAre("lanes-not-kept, layer 1, attention"));
  EXPECT_EQ(diagnose(subject).front().severity, Severity::kSuspicious);
  Subject two_layers = subject;
  two_layers.profile.model.n_layers = 2;
  EXPECT_THAT(found(two_layers), ElementsAre("lanes-not-kept, layer 1, attention"));
  fold(2);
  ASSERT_THAT(found(subject), ElementsAre("lanes-not-kept, residual stream"));
  EXPECT_EQ(diagnose(subject).front().severity, Severity::kBroken);
  subject.profile.model.n_layers = 4;  // two of them are not folded
  EXPECT_EQ(found(subject).size(), 2u);
  Subject kept = sound_lanes();
  at(kept, 1, kAttention, Point::kX).input = {.from_left = 1};
  EXPECT_THAT(found(kept), IsEmpty()) << "it is unknown whether they are folded";
}

TEST(LaneRules, SeeACarryThatIsTurnedWhereOthersAreNot) {
  const auto turn = [](LaneFit& sum) {
    if (sum.carry_transposed) sum.carry_transposed = 1 - *sum.carry_transposed;
  };
  EXPECT_THAT(found(with(turn, 1)), ElementsAre("carry-transposed, layer 1, attention"));
  EXPECT_THAT(found(with(turn)), IsEmpty());  // a convention: DeepSeek's code has it
  Subject half = with(turn);
  for (ProfileEntry& entry : half.profile.entries) {
    if (entry.site.sublayer == kFeedForward && entry.lane && entry.lane->carry_transposed)
      entry.lane->carry_transposed = 0;
  }
  EXPECT_THAT(found(half), IsEmpty());
}

TEST(LaneRules, CallAThirdOfTheCarriesUnusual) {
  const auto turned = [](std::size_t sites, double to) {
    Subject subject = sound_lanes();  // of six sublayers
    std::size_t i = 0;
    for (ProfileEntry& entry : subject.profile.entries) {
      if (entry.lane && entry.lane->carry_transposed && i++ < sites)
        entry.lane->carry_transposed = to;
    }
    return findings_of(find_turned_carries, subject).size();
  };
  EXPECT_EQ(turned(2, 1), 2u);
  EXPECT_EQ(turned(3, 1), 0u);
  EXPECT_EQ(turned(4, 1), 2u);
  EXPECT_EQ(turned(1, 0.51), 1u);
  EXPECT_EQ(turned(1, 0.49), 0u);
}

TEST(LaneRules, HoldMhcToItsWord) {
  const auto sums = [](double to) {
    return [to](LaneFit& sum) { sum.carry_out = sum.carry_transposed ? to : 2 - to; };
  };
  EXPECT_THAT(found(with(sums(1.101), 1)), ElementsAre("carry-not-stochastic, layer 1, attention"));
  EXPECT_THAT(found(with(sums(1.099), 1)), IsEmpty());
  EXPECT_THAT(found(with(sums(1.3))), ElementsAre("carry-not-stochastic, residual stream"));
  const auto halve = [](LaneFit& sum) {
    if (sum.write_gate) *sum.write_gate /= 2;
  };
  const auto gated = [](double gate) {
    return [gate](LaneFit& sum) {
      if (sum.write_gate) sum.write_gate = gate;
    };
  };
  for (const double near : {0.951, 1.049})
    EXPECT_THAT(found(with(gated(near), 1)), ElementsAre("write-scale, layer 1, attention"));
  for (const double far : {0.949, 1.051}) EXPECT_THAT(found(with(gated(far), 1)), IsEmpty());
  EXPECT_THAT(found(with(halve, 0)), ElementsAre("write-scale, layer 0, attention"));
  const auto round = [](LaneFit& sum) { sum.coefficients = "bfloat16"; };
  EXPECT_THAT(found(with(round)), ElementsAre("coefficients-rounded, residual stream"));
  for (const Subject& subject : {with(sums(1.3)), with(halve), with(round)}) {
    Subject other = subject;
    other.profile.model.lane_form.clear();
    EXPECT_THAT(found(other), IsEmpty());
  }
}

TEST(LaneRules, SeeLanesThatStayAlike) {
  const auto alike = [](double spread) {
    return [spread](LaneFit& sum) { sum.lane_spread = spread; };
  };
  EXPECT_THAT(found(with(alike(0.99e-5))), ElementsAre("lanes-alike, residual stream"));
  EXPECT_THAT(found(with(alike(1.01e-5))), IsEmpty());
  const auto severity = [&](double gradients) {
    const Subject subject = with([&](LaneFit& sum) {
      alike(0)(sum);
      if (sum.grad_spread) sum.grad_spread = gradients;
    });
    return findings_of(find_equal_lanes, subject).at(0).severity;
  };
  EXPECT_EQ(severity(0.99e-4), Severity::kSuspicious);
  EXPECT_EQ(severity(1.01e-4), Severity::kNote);
  EXPECT_THAT(found(with([&](LaneFit& sum) {
                alike(0)(sum);
                sum.grad_spread = 0.1;  // they will differ
              })),
              ElementsAre("lanes-alike, residual stream (note)"));
  for (const std::size_t sites : {1, 2}) {
    Subject few = with(alike(0));
    few.profile.entries.resize(sites * (1 + kLanes));  // of each sublayer, x and the lanes' sums
    EXPECT_EQ(findings_of(find_equal_lanes, few).size(), sites - 1);
  }
  Subject untrained = with(alike(0));
  untrained.profile.entries.back().std = 0;
  EXPECT_THAT(found(untrained), ElementsAre("lanes-alike, residual stream (note)"));
}

}  // namespace
}  // namespace addnorm::doctor
