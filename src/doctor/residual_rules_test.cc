#include <algorithm>

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

TEST(Rules, NameSublayersOfSeveralStacksAsTheCodeDoes) {
  Subject subject = sound();
  subject.profile.model.layer_modules = {"encoder.0", "decoder.0"};
  subject.profile.model.attention_modules = {"encoder.0.self", "decoder.0.cross"};
  subject.profile.model.feed_forward_modules = {"", "decoder.0"};
  sum_at(subject, 0, kAttention).from_x = 0;
  sum_at(subject, 0, kFeedForward).from_x = 0;
  sum_at(subject, 1, kAttention).from_x = 0;
  sum_at(subject, 1, kFeedForward).from_x = 0;
  EXPECT_THAT(found(subject), ElementsAre("residual-missing, encoder.0.self",
                                          "residual-missing, layer 0, feed-forward",
                                          "residual-missing, decoder.0.cross",
                                          "residual-missing, decoder.0, feed-forward"));
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

TEST(Rules, AllowAFactorFivePercent) {
  const auto judged = [](double from_x, double from_branch) {
    Subject subject = sound();
    sum_at(subject, 1, kAttention).from_x = from_x;
    sum_at(subject, 1, kAttention).from_branch = from_branch;
    return first_found(find_wrong_sums, subject);
  };
  for (const double near : {0.951, 1.049}) {
    EXPECT_EQ(judged(near, 1), "");
    EXPECT_EQ(judged(1, near), "");
  }
  for (const double far : {0.949, 1.051}) {
    EXPECT_EQ(judged(far, 1), "residual-factor");
    EXPECT_EQ(judged(1, far), "branch-factor");
  }
  EXPECT_EQ(judged(0.049, 1), "residual-missing");
  EXPECT_EQ(judged(0.051, 1), "residual-factor");
  for (const double twice : {1.901, 2.099}) EXPECT_EQ(judged(twice, 1), "residual-twice");
  for (const double other : {1.899, 2.101}) EXPECT_EQ(judged(other, 1), "residual-factor");
}

TEST(Rules, AllowAGradientTenPercentAndTakeFiveForNothing) {
  const auto judged = [](double forward, double backward) {
    Subject subject = sound();
    probe::SumFit& sum = sum_at(subject, 1, kAttention);
    sum.from_branch = forward;
    sum.grad_to_branch = backward;
    return first_found(find_detached_parts, subject);
  };
  for (const double near : {0.901, 1.099}) EXPECT_EQ(judged(1, near), "") << near;
  for (const double far : {0.899, 1.101}) EXPECT_EQ(judged(1, far), "gradient-factor") << far;
  EXPECT_EQ(judged(1, 0.049), "branch-detached");
  EXPECT_EQ(judged(1, 0.051), "gradient-factor");
}

TEST(Rules, LeaveTwoPercentOfASumToRounding) {
  Subject subject = sound();
  probe::SumFit& sum = sum_at(subject, 0, kAttention);
  sum.unexplained = 0.0199;
  EXPECT_EQ(first_found(find_unexplained_sums, subject), "");
  sum.unexplained = 0.0201;
  EXPECT_EQ(first_found(find_unexplained_sums, subject), "sum-unexplained");
  EXPECT_EQ(findings_of(find_unexplained_sums, subject).at(0).what,
            "2 % of the sum is neither stream nor branch");
}

TEST(Rules, DoNotUnderstandANetworkWhoseSumsAreMostlyUnexplained) {
  const auto judged = [](std::size_t unexplained, std::size_t sums) {
    Subject subject = sound();
    std::size_t i = 0;
    std::erase_if(subject.profile.entries, [&](ProfileEntry& entry) {
      if (!entry.sum) return false;
      if (i < unexplained) entry.sum->unexplained = 0.3;
      return i++ >= sums;
    });
    const Findings findings = findings_of(find_unexplained_sums, subject);
    return findings.empty() ? "" : findings.front().what;
  };
  EXPECT_THAT(judged(3, 4), ::testing::StartsWith("3 of 4 sums are not"));
  EXPECT_THAT(judged(3, 4), ::testing::HasSubstr("up to 30 % of a sum"));
  EXPECT_EQ(judged(2, 4), "30 % of the sum is neither stream nor branch");
  EXPECT_THAT(judged(2, 2), ::testing::StartsWith("2 of 2 sums are not"));
  EXPECT_EQ(judged(1, 1), "30 % of the sum is neither stream nor branch");
}

TEST(Rules, TakeAFactorOfThreeQuartersOfTheSumsForUsual) {
  const auto judged = [](std::size_t scaled, std::size_t plain) {
    Subject subject;
    subject.profile.model = {.d_model = 8, .n_layers = scaled + plain};
    for (std::size_t l = 0; l < scaled + plain; ++l) {
      at(subject, l, kFeedForward, Point::kSum).sum = {
          .from_x = l < scaled ? 1.7 : 1, .from_branch = 1, .unexplained = 0};
    }
    const Findings findings = findings_of(find_wrong_sums, subject);
    return words_of(findings).back() + ": " + findings.back().because;
  };
  constexpr auto* kNotUsual = "residual-factor, layer 1, feed-forward: s = 1·x + f";
  EXPECT_EQ(judged(3, 1),
            "residual-factor, layer 3, feed-forward: s = 1.7·x + f, as in most sublayers");
  EXPECT_EQ(judged(2, 1), kNotUsual) << "three sums are too few";
  EXPECT_EQ(judged(6, 2),
            "residual-factor, layer 7, feed-forward: s = 1.7·x + f, as in most sublayers");
  EXPECT_EQ(judged(5, 2), "residual-factor, layer 4, feed-forward: s = 1·x + f");
}

TEST(Rules, TakeStreamsThatAllHaveAFactorForADesign) {
  /// `known` sums with different factors, and others whose factor is unknown.
  const auto judged = [](std::size_t known, std::size_t unknown) {
    Subject subject;
    subject.profile.model = {.d_model = 8, .n_layers = known + unknown};
    for (std::size_t l = 0; l < known + unknown; ++l) {
      probe::SumFit& sum = at(subject, l, kFeedForward, Point::kSum).sum.emplace();
      if (l < known) sum.from_x = 0.3 + 0.2 * static_cast<double>(l);
    }
    return findings_of(find_wrong_sums, subject).at(0).severity;
  };
  EXPECT_EQ(judged(3, 0), Severity::kNote);
  EXPECT_EQ(judged(2, 0), Severity::kBroken);
  EXPECT_EQ(judged(1, 3), Severity::kNote) << "a quarter is known";
  EXPECT_EQ(judged(1, 2), Severity::kBroken) << "of few sums";
  EXPECT_EQ(judged(2, 6), Severity::kNote);
  EXPECT_EQ(judged(2, 5), Severity::kBroken);
  Subject cut = sound();
  for (const SublayerKind sublayer : {kAttention, kFeedForward}) {
    sum_at(cut, 0, sublayer).from_x = 0.5;
    sum_at(cut, 1, sublayer).from_x = 0.7;
  }
  sum_at(cut, 1, kFeedForward).from_x = 0;
  EXPECT_EQ(findings_of(find_wrong_sums, cut).at(0).severity, Severity::kBroken);
}

TEST(Rules, CountNoMissingStreamAmongTheUsualFactors) {
  Subject subject;
  subject.profile.model = {.d_model = 8, .n_layers = 6};
  for (std::size_t l = 0; l < 6; ++l) {
    at(subject, l, kFeedForward, Point::kSum).sum = {.from_x = l < 4 ? 1.7 : 0, .from_branch = 1};
  }
  EXPECT_EQ(findings_of(find_wrong_sums, subject).at(0).severity, Severity::kNote);
}

TEST(Rules, LeaveTheFirstSumWithoutANormAfterItItsFactor) {
  const auto judged = [](std::size_t plain) {
    Subject subject;
    subject.profile.model = {.d_model = 8, .n_layers = 4};
    for (std::size_t l = 0; l < 4; ++l) {
      at(subject, l, kAttention, Point::kSum).sum = {.from_x = l == plain ? 1 : 1.7,
                                                     .from_branch = 1};
      if (l != plain) at(subject, l, kAttention, Point::kAfter);
    }
    const Findings findings = findings_of(find_wrong_sums, subject);
    return std::ranges::count(findings, Severity::kBroken, &Finding::severity);
  };
  EXPECT_EQ(judged(0), 0) << "as in Keel";
  EXPECT_EQ(judged(1), 1);
}

TEST(Rules, CallAStreamOfTwoInMostSumsADoubling) {
  Subject subject = sound();
  for (const std::size_t layer : {0, 1}) {
    for (const SublayerKind sublayer : {kAttention, kFeedForward})
      sum_at(subject, layer, sublayer).from_x = 2;
  }
  sum_at(subject, 0, kAttention).from_x = 1;
  EXPECT_THAT(
      words_of(findings_of(find_wrong_sums, subject)),
      ElementsAre("residual-twice, layer 0, feed-forward", "residual-twice, layer 1, attention",
                  "residual-twice, layer 1, feed-forward"));
}

TEST(Rules, SayASumAsItsFormula) {
  const auto said = [](const probe::SumFit& fit) {
    Subject subject = sound();
    sum_at(subject, 0, kAttention) = fit;
    return findings_of(find_wrong_sums, subject).at(0).what;
  };
  EXPECT_EQ(said({.from_x = 0.5}), "the stream's factor in the sum is 0.5: s = 0.50·x");
  EXPECT_EQ(said({.from_x = -0.5, .from_branch = -1}),
            "the stream's factor in the sum is -0.5: s = −0.50·x − 1.00·f");
  EXPECT_EQ(said({.from_x = 0.0049, .from_before = 0.0051, .from_earlier = 0.3}),
            "the stream is not added to the branch: s = 0.30·x′ + 0.01·h");
}

TEST(Rules, TakeABranchFactorOfMoreThanHalfForUsual) {
  const auto judged = [](std::size_t halved, std::size_t plain) {
    Subject subject;
    subject.profile.model = {.d_model = 8, .n_layers = halved + plain};
    for (std::size_t l = 0; l < halved + plain; ++l) {
      at(subject, l, kFeedForward, Point::kSum).sum = {
          .from_x = 1, .from_branch = l < halved ? 0.5 : 1, .unexplained = 0};
    }
    return findings_of(find_wrong_sums, subject).front().severity;
  };
  EXPECT_EQ(judged(3, 1), Severity::kNote);
  EXPECT_EQ(judged(2, 1), Severity::kNote);
  EXPECT_EQ(judged(2, 2), Severity::kBroken);
  EXPECT_EQ(judged(1, 0), Severity::kBroken);
  const auto expected_of_all = [](double factor, std::size_t n_layers) {
    Subject subject;
    subject.profile.model = {.d_model = 8, .n_layers = n_layers};
    for (std::size_t l = 0; l < n_layers; ++l)
      at(subject, l, kFeedForward, Point::kSum).sum = {.from_x = 1, .from_branch = factor};
    const Finding finding = findings_of(find_wrong_sums, subject).at(0);
    EXPECT_EQ(finding.severity, Severity::kBroken);
    return finding.expected;
  };
  EXPECT_EQ(expected_of_all(0.5, 1), 1) << "a single sum";
  EXPECT_EQ(expected_of_all(-0.5, 3), 1) << "no branch is subtracted by design";
}

TEST(Rules, CompareABranchAloneAtItsPlaceWithAllOfItsKind) {
  Subject subject;
  subject.profile.model = {.d_model = 8, .n_layers = 3};
  subject.profile.model.layer_modules = {"layers.0", "layers.0", "layers.1"};
  for (std::size_t l = 0; l < 3; ++l)
    at(subject, l, kFeedForward, Point::kSum).sum = {.from_x = 1, .from_branch = 0.5};
  for (const Finding& finding : findings_of(find_wrong_sums, subject))
    EXPECT_EQ(finding.severity, Severity::kNote) << finding.where;
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
  EXPECT_THAT(diagnose(subject).at(0).what, ::testing::StartsWith("2 of its linear maps read the"));
  norm_at(subject, 1, kAttention).past_norm = 1;
  EXPECT_THAT(diagnose(subject).at(0).what,
              ::testing::StartsWith("1 of its linear maps reads the"));
}

TEST(Rules, SeeWhatASumHoldsBesides) {
  Subject subject = sound();
  sum_at(subject, 0, kAttention).unexplained = 0.1;
  EXPECT_THAT(found(subject), ElementsAre("sum-unexplained, layer 0, attention"));
  subject.profile.model.placement = "layerscale";  // by feature: no fit of one number
  EXPECT_THAT(found(subject), IsEmpty());
}

TEST(Rules, LeaveSumsOfAFirstLayerWhoseSublayersReadTheSame) {
  Subject subject = sound();
  for (const SublayerKind sublayer : {kAttention, kFeedForward})
    at(subject, 0, sublayer, Point::kX).mean = 0.1;
  sum_at(subject, 0, kAttention).unexplained = 0.3;
  EXPECT_EQ(first_found(find_unexplained_sums, subject), "");
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
