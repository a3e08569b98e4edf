
#include "support/handwritten_profile.h"

namespace addnorm::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using enum SublayerKind;

TEST(Rules, SeeANormThatDoesNotDivideRows) {
  Subject subject = sound();
  probe::NormFit& norm = norm_at(subject, 1, kAttention);
  norm.unexplained = 0.049;
  norm.centred = 1;  // which RMSNorm's is not
  const auto rules_there = [&] {
    std::vector<std::string> rules;
    for (const Finding& f : diagnose(subject)) {
      if (f.where == "layer 1, attention, norm before it") rules.emplace_back(f.rule);
    }
    return rules;
  };
  EXPECT_THAT(rules_there(), ElementsAre("norm-kind"));
  norm.unexplained = 0.051;
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
  norm.statistic = "absolute_value";
  norm.power = 1;
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

/// A network of plain γ and RMSNorm with one norm, before attention in layer 1.
Subject with_norm(const probe::NormFit& fit, NormKind kind = NormKind::kRms) {
  Subject subject;
  subject.profile.model = {.d_model = 8, .n_layers = 2, .norm = kind};
  subject.profile.model.gamma_form = GammaForm::kPlain;
  subject.profile.entries = {{.site = {1, kAttention, Point::kBefore}, .norm = fit}};
  return subject;
}

TEST(Rules, TellACentredNormFromOneThatIsNot) {
  for (const double kept : {0.49, 0.5})
    EXPECT_EQ(first_found(find_wrong_norm_kind, with_norm({.centred = kept})), "");
  EXPECT_EQ(first_found(find_wrong_norm_kind, with_norm({.centred = 0.51})), "norm-kind");
  const auto layer_norm = [](double centred) {
    return first_found(find_wrong_norm_kind, with_norm({.centred = centred}, NormKind::kLayer));
  };
  EXPECT_EQ(layer_norm(0.49), "norm-kind");
  EXPECT_EQ(layer_norm(0.51), "");
  EXPECT_THAT(findings_of(find_wrong_norm_kind, with_norm({.centred = 0.51})).at(0).what,
              ::testing::StartsWith("subtracts 51 %"));
  const auto expected_as = [](std::optional<double> centred) {
    return findings_of(find_wrong_statistics,
                       with_norm({.centred = centred, .statistic = "absolute_deviation"}))
        .at(0)
        .because;
  };
  EXPECT_THAT(expected_as(0.51), ::testing::EndsWith("LayerNorm does"));
  for (const std::optional<double> centred : {std::optional(0.49), std::optional<double>()})
    EXPECT_THAT(expected_as(centred), ::testing::EndsWith("RMSNorm does"));
}

TEST(Rules, TellAGammaToWhichOneIsAdded) {
  const auto judged = [](const probe::NormFit& fit) {
    return first_found(find_wrong_gamma_form, with_norm(fit));
  };
  EXPECT_EQ(judged({.gamma_offset = 0.49}), "");
  EXPECT_EQ(judged({.gamma_offset = 0.51}), "gamma-form");
  const auto scaled = [&](double scale, std::optional<double> slope = {}) {
    probe::DivisorFit fit = sound_divisor();
    fit.scale = scale;
    fit.slope = slope;
    return judged({.divisor = fit});
  };
  for (const double twice : {1.91, 2.09}) EXPECT_EQ(scaled(twice), "gamma-form") << twice;
  for (const double other : {1.89, 2.11}) EXPECT_EQ(scaled(other), "") << other;
  for (const double quarter : {0.2401, 0.2599})
    EXPECT_EQ(scaled(1, quarter), "gamma-form") << quarter;
  for (const double other : {0.2399, 0.2601}) EXPECT_EQ(scaled(1, other), "") << other;
}

TEST(Rules, LeaveTheGammaOfANormOfAnotherKind) {
  const auto judged = [](std::size_t others) {
    Subject subject = with_norm({.gamma_offset = 1, .declared_norm = "layer"});
    for (std::size_t layer = 2; layer < 2 + others; ++layer) {
      subject.profile.entries.push_back({.site = {layer, kAttention, Point::kBefore},
                                         .norm = probe::NormFit{.declared_norm = "rms"}});
    }
    return first_found(find_wrong_gamma_form, subject);
  };
  EXPECT_EQ(judged(1), "gamma-form");
  EXPECT_EQ(judged(2), "");
}

TEST(Rules, TakeAKindThatHalfOfThePeersDeclareForADesign) {
  const auto judged = [](std::size_t alike, std::size_t others) {
    Subject subject = with_norm({.centred = 1, .declared_norm = "layer"});
    for (std::size_t i = 1; i < alike + others; ++i) {
      const bool is_alike = i < alike;
      subject.profile.entries.push_back(
          {.site = {1 + i, kAttention, Point::kBefore},
           .norm = probe::NormFit{.centred = is_alike ? 1.0 : 0.0,
                                  .declared_norm = is_alike ? "layer" : "rms"}});
    }
    return findings_of(find_wrong_norm_kind, subject).at(0).severity;
  };
  EXPECT_EQ(judged(1, 0), Severity::kNote);
  EXPECT_EQ(judged(1, 1), Severity::kBroken);
  EXPECT_EQ(judged(2, 2), Severity::kNote);
  EXPECT_EQ(judged(2, 3), Severity::kBroken);
}

TEST(Rules, TakeOnlyNormsAtTheSamePlaceForPeers) {
  Subject subject = with_norm({.centred = 1, .declared_norm = "layer"});
  for (const SublayerKind sublayer : {kAttention, kFeedForward}) {
    subject.profile.entries.push_back(
        {.site = {2, sublayer, Point::kBefore},
         .norm = probe::NormFit{.declared_norm = sublayer == kAttention ? "layer" : "rms"}});
  }
  subject.profile.entries.push_back(subject.profile.entries.back());
  subject.profile.entries.push_back(subject.profile.entries.back());
  EXPECT_EQ(findings_of(find_wrong_norm_kind, subject).at(0).severity, Severity::kNote);
}

TEST(Rules, SeeGainsThatLetNothingPass) {
  const Site site{1, kAttention, Point::kGamma, NormSlot::kInside};
  const auto judged = [&](double gain, const auto& change) {
    Subject subject;
    ProfileEntry& gamma = at(subject, site);
    gamma.mean = gain;
    gamma.std = 0;
    change(subject);
    return first_found(find_dead_gains, subject);
  };
  EXPECT_EQ(judged(1.01e-3, [](Subject&) {}), "");
  EXPECT_EQ(judged(0, [](Subject& s) { s.profile.model.gamma_form = GammaForm::kOnePlus; }), "");
  EXPECT_EQ(judged(-1, [](Subject& s) { s.profile.model.gamma_form = GammaForm::kOnePlus; }),
            "dead-norm");
  EXPECT_EQ(judged(0.99e-3, [](Subject&) {}), "dead-norm");
  const auto passing = [&](double output, double beta) {
    return judged(0, [&](Subject& subject) {
      at(subject, 1, kAttention, Point::kInside).rms = output;
      at(subject, {1, kAttention, Point::kBeta, NormSlot::kInside}).rms = beta;
    });
  };
  EXPECT_EQ(passing(1.01e-3, 0), "");
  EXPECT_EQ(passing(0.99e-3, 0), "dead-norm");
  EXPECT_EQ(passing(1.01e-3, 0.01), "dead-norm") << "only β passes";
  const auto young = [&](double rms, double gradient) {
    return judged(0, [&](Subject& subject) {
      at(subject, site).rms = rms;
      at(subject, site).grad_rms = gradient;
    });
  };
  EXPECT_EQ(young(0, 0.1), "");
  EXPECT_EQ(young(0, 0), "dead-norm");
  EXPECT_EQ(young(0.5e-3, 0.1), "dead-norm");
}

TEST(Rules, SeeAOnePlusNormWhoseGammaOfZeroSilencesIt) {
  const auto judged = [](double output, double gamma, double input) {
    Subject subject = with_norm({});
    subject.profile.model.gamma_form = GammaForm::kOnePlus;
    at(subject, 1, kAttention, Point::kBefore).rms = output;
    at(subject, {1, kAttention, Point::kGamma, NormSlot::kBefore}).rms = gamma;
    at(subject, 1, kAttention, Point::kX).rms = input;
    for (ProfileEntry& entry : subject.profile.entries) entry.step = 0;
    return first_found(find_wrong_gamma_form, subject);
  };
  EXPECT_EQ(judged(0, 0, 0.5), "gamma-form");
  EXPECT_EQ(judged(0.5, 0, 0.5), "");
  EXPECT_EQ(judged(0, 0.5, 0.5), "");
  EXPECT_EQ(judged(0, 0, 0), "");
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

TEST(Rules, ExpectThePlacesThatMostLayersHave) {
  const auto judged = [](std::size_t n_layers, std::size_t with_inside) {
    Subject subject;
    subject.profile.model = {.d_model = 8, .n_layers = n_layers};
    for (std::size_t l = 0; l < n_layers; ++l) {
      at(subject, l, kAttention, Point::kSum);
      at(subject, l, kAttention, l < with_inside ? Point::kInside : Point::kAfter);
    }
    return findings_of(find_misplaced_norms, subject);
  };
  EXPECT_THAT(words_of(judged(3, 2)), ElementsAre("norm-misplaced, layer 2, attention"));
  EXPECT_EQ(judged(3, 2)[0].what, "has a norm after the sum");
  EXPECT_EQ(judged(3, 2)[0].because, "a norm on its branch, as most layers have");
  EXPECT_THAT(judged(4, 2), IsEmpty()) << "no majority";
  EXPECT_THAT(judged(2, 2), IsEmpty());
  EXPECT_THAT(judged(2, 1), IsEmpty());
}

TEST(Rules, WantTheNormsOfThePlacementWithTheirNames) {
  const auto said = [](const char* placement) {
    Subject subject;
    subject.profile.model = {.d_model = 8, .n_layers = 1, .placement = placement};
    at(subject, 0, kAttention, Point::kSum);
    at(subject, 0, kFeedForward, Point::kBefore);
    return findings_of(find_misplaced_norms, subject).at(0).because;
  };
  EXPECT_EQ(said("pre"), "a norm before it, by the placement pre");
  EXPECT_EQ(said("reordered"), "a norm on its branch, by the placement reordered");
  EXPECT_EQ(said("post"), "a norm after the sum, by the placement post");
  EXPECT_EQ(said("sandwich"), "a norm before it and on its branch, by the placement sandwich");
}

TEST(Rules, WantAFinalNormWhereTheHeadReadsTheStream) {
  const auto judged = [](std::optional<double> reads_stream) {
    Subject subject = sound();
    at(subject, 2, kHead, Point::kOutput).reads_stream = reads_stream;
    return first_found(find_missing_final_norm, subject);
  };
  EXPECT_EQ(judged(1), "final-norm");
  EXPECT_EQ(judged({}), "final-norm");
  EXPECT_EQ(judged(0), "");
  Subject lacking = sound();
  lacking.lacks_final_norm = true;
  at(lacking, 1, kFeedForward, Point::kSum).rms = 3;
  EXPECT_EQ(findings_of(find_missing_final_norm, lacking).at(0).measured, 3);
}

TEST(Rules, NamePowersOverflowAndModulationsAroundZero) {
  const auto judged = [](Rule* rule, const probe::NormFit& fit) {
    Subject subject;
    subject.profile.model = {.d_model = 8, .n_layers = 2};
    subject.profile.entries = {{.site = {1, kAttention, Point::kBefore}, .norm = fit}};
    return first_found(rule, subject);
  };
  EXPECT_EQ(judged(find_wrong_statistics, {.statistic = "deviation", .power = -1}), "norm-power");
  EXPECT_EQ(judged(find_wrong_statistics, {.statistic = "rms", .power = 0.5}), "norm-power");
  EXPECT_EQ(judged(find_wrong_statistics, {.statistic = "absolute_value", .power = 1}),
            "norm-kind");
  const auto divisor = [](const char* statistic, double power) {
    return findings_of(find_wrong_statistics, with_norm({.statistic = statistic, .power = power}))
        .at(0)
        .what;
  };
  EXPECT_EQ(divisor("rms", 1), "divides each row by the root mean square");
  EXPECT_EQ(divisor("deviation", -2),
            "divides each row by the reciprocal of the square of the deviation");
  EXPECT_EQ(divisor("absolute_value", 4),
            "divides each row by the fourth power of the mean absolute value");
  EXPECT_EQ(judged(find_overflowing_norms, {}), "");
  EXPECT_EQ(judged(find_overflowing_norms, {.vanished = 1}), "norm-overflow");
  const auto modulated = [&](double mean, double std) {
    return judged(find_wrong_modulations, {.modulation_mean = mean, .modulation_std = std});
  };
  EXPECT_EQ(modulated(0.1, 0.4), "modulation-around-zero");
  EXPECT_EQ(modulated(0.299, 0.4), "modulation-around-zero");
  EXPECT_EQ(modulated(0.301, 0.4), "");
  EXPECT_EQ(modulated(0.1, 0.09905), "modulation-around-zero") << "to 0.001";
  EXPECT_EQ(modulated(0.1, 0.09895), "");
  EXPECT_EQ(modulated(1.1, 0.4), "");
  EXPECT_EQ(modulated(0.5, 0.6), "") << "a gate";
  EXPECT_EQ(modulated(-0.5, 0.1), "") << "a trained scale";
}

}  // namespace
}  // namespace addnorm::doctor
