
#include "doctor/rules.h"
#include "support/handwritten_profile.h"

namespace addnorm::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using enum SublayerKind;

TEST(Rules, SeeANormThatDoesNotDivideRows) {
  Subject subject = sound();
  probe::NormFit& norm = norm_at(subject, 1, kAttention);
  norm.unexplained = 0.04;
  norm.centred = 1;  // which RMSNorm's is not
  const auto rules_there = [&] {
    std::vector<std::string> rules;
    for (const Finding& f : diagnose(subject)) {
      if (f.where == "layer 1, attention, norm before it") rules.emplace_back(f.rule);
    }
    return rules;
  };
  EXPECT_THAT(rules_there(), ElementsAre("norm-kind"));
  norm.unexplained = 0.06;
  EXPECT_THAT(rules_there(), ElementsAre("norm-axis"));
}

TEST(Rules, SeeNormsOverOtherAxesAndByOtherStatistics) {
  Subject subject = sound();
  const Site site{2, kFinalNorm, Point::kOutput};
  probe::NormFit& norm = at(subject, site).norm.emplace();
  norm.centred = 0;
  EXPECT_THAT(found(subject), IsEmpty());
  norm.statistics_over = "tokens";
  EXPECT_THAT(found(subject), ElementsAre("norm-axis, final norm"));
  norm.statistics_over = "";
  norm.divides_by = "the mean absolute value";
  EXPECT_THAT(found(subject), ElementsAre("norm-kind, final norm"));
  EXPECT_EQ(diagnose(subject).at(0).what, "divides each row by the mean absolute value");
}

TEST(Rules, JudgeNormsWithinAttentionByTheirStatisticsAlone) {
  Subject subject = sound();
  const Site site{1, kAttention, Point::kOutput, NormSlot::kNone, Projection::kKey};
  probe::NormFit& norm = at(subject, site).norm.emplace();
  norm = {.unexplained = 1e-8, .centred = 0, .divisor = sound_divisor()};
  norm.divisor->slope = 1;
  EXPECT_THAT(found(subject), IsEmpty());
  norm.divisor->slope = 8.0 / 7;
  EXPECT_THAT(found(subject), ElementsAre("variance-divisor, layer 1, attention, norm of keys"));
  norm.statistics_over = "tokens";
  norm.unexplained = 0.5;
  EXPECT_THAT(found(subject), ElementsAre("norm-axis, layer 1, attention, norm of keys"));
}

TEST(Rules, ExpectOfEachStackItsOwnNorms) {
  Subject subject = sound();
  subject.profile.model.eps = 1e-6;
  subject.profile.model.placement = "";
  const auto norm = [&](std::size_t layer, double centred, double eps) {
    at(subject, layer, kAttention, Point::kBefore).rms = 1;
    norm_at(subject, layer, kAttention) = {
        .unexplained = 0, .centred = centred, .divisor = sound_divisor()};
    norm_at(subject, layer, kAttention).divisor->eps_in_variance = eps;
  };
  norm(0, 0, 1e-6);
  norm(1, 1, 1e-2);
  EXPECT_THAT(found(subject), ElementsAre("norm-kind, layer 1, attention, norm before it",
                                          "epsilon-size, layer 1, attention, norm before it"));
  subject.profile.model.stacks = {{.first_layer = 1, .norm = {NormKind::kLayer, 1e-2, {}}}};
  EXPECT_THAT(found(subject), IsEmpty());
  norm_at(subject, 1, kAttention).centred = 0;
  EXPECT_THAT(found(subject), ElementsAre("norm-kind, layer 1, attention, norm before it"));
}

TEST(Rules, SeeGainsOfOneThatAreAddedToOne) {
  Subject subject = sound();
  subject.profile.model.gamma_form = GammaForm::kOnePlus;
  ProfileEntry gamma{.step = 7,
                     .site = {0, kAttention, Point::kGamma, NormSlot::kBefore},
                     .rms = 1,
                     .mean = 0.7,
                     .std = 0,
                     .min = 0.7};
  subject.profile.entries.push_back(gamma);
  norm_at(subject, 0, kAttention).divisor = sound_divisor();  // the norm itself was measured
  at(subject, 0, kAttention, Point::kBefore).rms = 1;
  subject.profile.model.placement = "unknown";
  EXPECT_THAT(found(subject), IsEmpty());
  for (ProfileEntry& entry : subject.profile.entries) {
    if (entry.site.point == Point::kGamma) entry.mean = entry.min = 0.9;
  }
  EXPECT_THAT(found(subject), ElementsAre("gamma-form, all norms"));
}

TEST(Rules, TellAVarianceFromItsEstimate) {
  Subject subject = sound();
  subject.profile.model.eps = 1e-5;
  probe::DivisorFit norm = sound_divisor();
  norm.slope = 8.0 / 7;        // n/(n − 1)
  norm.eps_in_variance = 0.1;  // which is no ε
  norm.variance_spread = 0.05;
  norm_at(subject, 0, kAttention).divisor = norm;
  for (const std::size_t layer : {0, 1}) {
    for (const SublayerKind sublayer : {kAttention, kFeedForward}) {
      at(subject, layer, sublayer, Point::kBefore);
    }
  }
  EXPECT_THAT(found(subject), ElementsAre("variance-divisor, layer 0, attention, norm before it"));
  EXPECT_THAT(diagnose(subject).at(0).what, ::testing::HasSubstr("n/(n − 1)"));
}

TEST(Rules, SeeANormThatIsMissingOrElsewhere) {
  Subject subject = sound();
  for (const std::size_t layer : {0, 1}) {
    for (const SublayerKind sublayer : {kAttention, kFeedForward}) {
      at(subject, layer, sublayer, Point::kBefore).rms = 1;
    }
  }
  EXPECT_THAT(found(subject), IsEmpty());
  Subject missing = subject;
  std::erase_if(missing.profile.entries, [](const ProfileEntry& entry) {
    return entry.site == Site{1, kAttention, Point::kBefore};
  });
  EXPECT_THAT(found(missing), ElementsAre("norm-misplaced, layer 1, attention"));
  at(missing, 1, kAttention, Point::kAfter).rms = 1;
  EXPECT_THAT(found(missing), ElementsAre("norm-misplaced, layer 1, attention"));
  subject.profile.model.placement = "post";  // which it is not
  EXPECT_EQ(found(subject).size(), 4U);
}

TEST(Rules, NamePowersOverflowAndModulationsAroundZero) {
  const auto judged = [](Rule* rule, const probe::NormFit& fit) {
    Subject subject;
    subject.profile.model = {.d_model = 8, .n_layers = 2};
    subject.profile.entries = {{.site = {1, kAttention, Point::kBefore}, .norm = fit}};
    Findings findings;
    rule(subject, findings);
    return findings.empty() ? "" : std::string(findings.front().rule);
  };
  EXPECT_EQ(judged(find_wrong_statistics, {.divides_by = "the reciprocal of the deviation"}),
            "norm-power");
  EXPECT_EQ(judged(find_wrong_statistics, {.divides_by = "the mean absolute value"}), "norm-kind");
  EXPECT_EQ(judged(find_overflowing_norms, {}), "");
  EXPECT_EQ(judged(find_overflowing_norms, {.vanished = 1}), "norm-overflow");
  const auto modulated = [&](double mean, double std) {
    return judged(find_wrong_modulations, {.modulation_mean = mean, .modulation_std = std});
  };
  EXPECT_EQ(modulated(0.1, 0.4), "modulation-around-zero");
  EXPECT_EQ(modulated(1.1, 0.4), "");
  EXPECT_EQ(modulated(0.5, 0.6), "") << "a gate";
  EXPECT_EQ(modulated(-0.5, 0.1), "") << "a trained scale";
}

}  // namespace
}  // namespace addnorm::doctor
