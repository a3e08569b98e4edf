/// Rules one by one, on profiles written by hand: what they see, and where they are silent.
/// tests/doctor_suite.cc has whole networks.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "doctor/diagnose.h"
#include "doctor/layers.h"

namespace addnorm::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using enum SublayerKind;

/// Two layers of a trained pre-norm network of which nothing but a sound sum is known.
Subject sound() {
  Subject subject;
  subject.profile.model = {.d_model = 8, .n_layers = 2, .placement = "pre", .norm = NormKind::kRms};
  for (const std::size_t layer : {0, 1}) {
    for (const SublayerKind sublayer : {kAttention, kFeedForward}) {
      const auto add = [&](Point point, double rms) {
        probe::ProfileEntry entry{.step = 7, .site = {layer, sublayer, point}, .rms = rms};
        entry.abs_max = 4 * rms;
        entry.abs_median = 0.7 * rms;
        subject.profile.entries.push_back(entry);
      };
      add(Point::kX, 1);
      add(Point::kBranch, 0.5);
      add(Point::kSum, 1);
      probe::ProfileEntry& sum = subject.profile.entries.back();
      sum.from_x = sum.from_branch = 1;
      sum.from_before = sum.unexplained = 0;
    }
  }
  return subject;
}

probe::ProfileEntry& at(Subject& subject, std::size_t layer, SublayerKind sublayer, Point point) {
  for (probe::ProfileEntry& entry : subject.profile.entries) {
    if (entry.site == Site{layer, sublayer, point}) return entry;
  }
  subject.profile.entries.push_back({.step = 7, .site = {layer, sublayer, point}});
  return subject.profile.entries.back();
}

/// "rule, where", and "(note)" where it is one.
std::vector<std::string> found(const Subject& subject) {
  std::vector<std::string> list;
  for (const Finding& f : diagnose(subject)) {
    list.push_back(std::string(f.rule) + ", " + f.where +
                   (f.severity == Severity::kNote ? " (note)" : ""));
  }
  return list;
}

TEST(Rules, AreSilentOnWhatIsSoundOrUnknown) {
  EXPECT_THAT(found(sound()), IsEmpty());
  EXPECT_THAT(found({}), IsEmpty());
}

TEST(Rules, SeeSumsThatDoNotPassTheirGradientOn) {
  Subject subject = sound();
  probe::ProfileEntry& sum = at(subject, 1, kAttention, Point::kSum);
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

TEST(Rules, SeeFactorsInOneSumAndTakeThemInAllForADesign) {
  Subject subject = sound();
  at(subject, 1, kAttention, Point::kSum).from_x = 0.7;
  EXPECT_THAT(found(subject), ElementsAre("residual-factor, layer 1, attention"));
  subject = sound();
  at(subject, 1, kFeedForward, Point::kSum).from_branch = 0.22;
  EXPECT_THAT(found(subject), ElementsAre("branch-factor, layer 1, feed-forward"));
  for (probe::ProfileEntry& entry : subject.profile.entries) {
    if (entry.site.point == Point::kSum) entry.from_branch = 0.22;  // Granite's residual_multiplier
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
  for (probe::ProfileEntry& entry : subject.profile.entries) {
    if (entry.site.point == Point::kSum && entry.site.sublayer == kFeedForward) {
      entry.from_branch = 0.5;  // a Conformer's
    }
  }
  probe::ProfileEntry third = at(subject, 1, kFeedForward, Point::kSum);
  third.site.layer = 2;
  third.from_branch = 1;
  subject.profile.model.n_layers = 3;
  subject.profile.entries.push_back(third);
  EXPECT_THAT(found(subject), ElementsAre("branch-factor, layer 2, feed-forward",
                                          "branch-factor, layer 0, feed-forward (note)",
                                          "branch-factor, layer 1, feed-forward (note)"));
}

TEST(Rules, SeeANormThatDoesNotDivideRows) {
  Subject subject = sound();
  probe::ProfileEntry& norm = at(subject, 1, kAttention, Point::kBefore);
  norm.unexplained = 0.04;
  norm.centred = 1;  // which RMSNorm's is not
  const auto seen = [&] {
    std::vector<std::string> rules;
    for (const Finding& f : diagnose(subject)) {
      if (f.where == "layer 1, attention, norm before it") rules.emplace_back(f.rule);
    }
    return rules;
  };
  EXPECT_THAT(seen(), ElementsAre("norm-kind"));
  norm.unexplained = 0.06;
  EXPECT_THAT(seen(), ElementsAre("norm-axis"));
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
  std::erase_if(missing.profile.entries, [](const probe::ProfileEntry& entry) {
    return entry.site == Site{1, kAttention, Point::kBefore};
  });
  EXPECT_THAT(found(missing), ElementsAre("norm-misplaced, layer 1, attention"));
  at(missing, 1, kAttention, Point::kAfter).rms = 1;
  EXPECT_THAT(found(missing), ElementsAre("norm-misplaced, layer 1, attention"));
  subject.profile.model.placement = "post";  // which it is not
  EXPECT_EQ(found(subject).size(), 4U);
}

TEST(Rules, TellAVarianceFromItsEstimate) {
  Subject subject = sound();
  subject.profile.model.eps = 1e-5;
  probe::ProfileEntry& norm = at(subject, 0, kAttention, Point::kBefore);
  norm.divisor = norm.deviation = norm.scale = 1;
  norm.divisor_noise = 1e-7;
  norm.divisor_slope = 8.0 / 7;  // n/(n − 1)
  norm.eps_in_variance = 0.1;    // which is no ε
  norm.eps_in_variance_spread = 0.05;
  for (const std::size_t layer : {0, 1}) {
    for (const SublayerKind sublayer : {kAttention, kFeedForward}) {
      at(subject, layer, sublayer, Point::kBefore);
    }
  }
  EXPECT_THAT(found(subject), ElementsAre("variance-divisor, layer 0, attention, norm before it"));
  EXPECT_THAT(diagnose(subject).at(0).what, ::testing::HasSubstr("n/(n − 1)"));
}

TEST(Rules, SeeAStreamThatIsTakenFromBefore) {
  Subject subject = sound();
  probe::ProfileEntry& sum = at(subject, 1, kFeedForward, Point::kSum);
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
  at(subject, 1, kAttention, Point::kBefore).past_norm = 0;
  EXPECT_THAT(found(subject), IsEmpty());
  at(subject, 1, kAttention, Point::kBefore).past_norm = 2;
  EXPECT_THAT(found(subject), ElementsAre("sublayer-input, layer 1, attention"));
}

TEST(Rules, SeeNormsOverOtherAxesAndByOtherStatistics) {
  Subject subject = sound();
  const Site site{2, kFinalNorm, Point::kOutput};
  subject.profile.entries.push_back({.step = 7, .site = site});
  subject.profile.entries.back().centred = 0;
  EXPECT_THAT(found(subject), IsEmpty());
  subject.profile.entries.back().statistics_over = "tokens";
  EXPECT_THAT(found(subject), ElementsAre("norm-axis, final norm"));
  subject.profile.entries.back().statistics_over = "";
  subject.profile.entries.back().divides_by = "the mean absolute value";
  EXPECT_THAT(found(subject), ElementsAre("norm-kind, final norm"));
  EXPECT_EQ(diagnose(subject).at(0).what, "divides each row by the mean absolute value");
}

TEST(Rules, JudgeNormsWithinAttentionByTheirStatisticsAlone) {
  Subject subject = sound();
  const Site site{1, kAttention, Point::kOutput, NormSlot::kNone, Projection::kKey};
  probe::ProfileEntry norm{.step = 7, .site = site, .unexplained = 1e-8};
  norm.centred = 0;
  norm.divisor_slope = 1;
  norm.divisor_noise = 1e-7;
  subject.profile.entries.push_back(norm);
  EXPECT_THAT(found(subject), IsEmpty());
  subject.profile.entries.back().divisor_slope = 8.0 / 7;
  EXPECT_THAT(found(subject), ElementsAre("variance-divisor, layer 1, attention, norm of keys"));
  subject.profile.entries.back().statistics_over = "tokens";
  subject.profile.entries.back().unexplained = 0.5;
  EXPECT_THAT(found(subject), ElementsAre("norm-axis, layer 1, attention, norm of keys"));
}

TEST(Rules, SeeGainsOfOneThatAreAddedToOne) {
  Subject subject = sound();
  subject.profile.model.gamma_form = GammaForm::kOnePlus;
  probe::ProfileEntry gamma{.step = 7,
                            .site = {0, kAttention, Point::kGamma, NormSlot::kBefore},
                            .rms = 1,
                            .mean = 0.7,
                            .std = 0,
                            .min = 0.7};
  subject.profile.entries.push_back(gamma);
  at(subject, 0, kAttention, Point::kBefore).divisor = 1;  // the norm itself was measured
  at(subject, 0, kAttention, Point::kBefore).rms = 1;
  subject.profile.model.placement = "unknown";
  EXPECT_THAT(found(subject), IsEmpty());
  for (probe::ProfileEntry& entry : subject.profile.entries) {
    if (entry.site.point == Point::kGamma) entry.mean = entry.min = 0.9;
  }
  EXPECT_THAT(found(subject), ElementsAre("gamma-form, all norms"));
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

TEST(Rules, LeaveSumsOfLayersSideBySideThatOneBranchDoesNotExplain) {
  Subject subject = sound();
  for (const SublayerKind sublayer : {kAttention, kFeedForward}) {
    at(subject, 1, sublayer, Point::kX).mean = 0.1;
    probe::ProfileEntry& sum = at(subject, 1, sublayer, Point::kSum);
    sum.from_branch = 0;
    sum.unexplained = 0.3;  // the other branch, which the profile's author did not know of
  }
  EXPECT_THAT(found(subject), IsEmpty());
  for (const SublayerKind sublayer : {kAttention, kFeedForward}) {
    probe::ProfileEntry& sum = at(subject, 1, sublayer, Point::kSum);
    sum.from_x = sum.unexplained = 0;  // where it was known, the residual is judged as elsewhere
    sum.from_branch = 1;
  }
  EXPECT_THAT(found(subject), ElementsAre("residual-missing, layer 1, attention",
                                          "residual-missing, layer 1, feed-forward"));
}

TEST(Rules, SeeWeightsThatDoWorseThanGuessing) {
  Subject subject = sound();
  subject.loss = 4.5;
  subject.chance_loss = 3.7;
  EXPECT_THAT(found(subject), IsEmpty());  // on tokens that nobody has chosen
  subject.alternatives = {{"1 + γ for γ", 4.6}};
  EXPECT_THAT(found(subject), ElementsAre("worse-than-guessing, model"));
}

TEST(Rules, SeeWhatASumHoldsBesides) {
  Subject subject = sound();
  at(subject, 0, kAttention, Point::kSum).unexplained = 0.1;
  EXPECT_THAT(found(subject), ElementsAre("sum-unexplained, layer 0, attention"));
  subject.profile.model.placement = "layerscale";  // by feature: no fit of one number
  EXPECT_THAT(found(subject), IsEmpty());
}

TEST(Rules, SeeIdleBranchesButNotThoseThatANormMakesLarge) {
  Subject subject = sound();
  at(subject, 0, kFeedForward, Point::kBranch).rms = 1e-9;
  EXPECT_THAT(found(subject), ElementsAre("idle-sublayer, layer 0, feed-forward"));
  Subject of_lanes = subject;
  probe::ProfileEntry second = at(of_lanes, 0, kFeedForward, Point::kSum);
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
  probe::ProfileEntry weight = at(subject, 0, kFeedForward, Point::kBranch);
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

TEST(Rules, ExpectOfEachStackItsOwnNorms) {
  Subject subject = sound();
  subject.profile.model.eps = 1e-6;
  subject.profile.model.placement = "";
  const auto norm = [&](std::size_t layer, double centred, double eps) {
    probe::ProfileEntry entry{.step = 7, .site = {layer, kAttention, Point::kBefore}, .rms = 1};
    entry.centred = centred;
    entry.eps_in_variance = eps;
    entry.eps_in_variance_spread = entry.unexplained = 0;
    entry.divisor = entry.deviation = entry.scale = 1;
    subject.profile.entries.push_back(entry);
  };
  norm(0, 0, 1e-6);
  norm(1, 1, 1e-2);
  EXPECT_THAT(found(subject), ElementsAre("norm-kind, layer 1, attention, norm before it",
                                          "epsilon-size, layer 1, attention, norm before it"));
  subject.profile.model.stacks = {{.first_layer = 1, .norm = {NormKind::kLayer, 1e-2, {}}}};
  EXPECT_THAT(found(subject), IsEmpty());
  subject.profile.entries.back().centred = 0;
  EXPECT_THAT(found(subject), ElementsAre("norm-kind, layer 1, attention, norm before it"));
}

TEST(Rules, SeeTheSumThatLacksTheFactorOfTheOthers) {
  Subject subject = sound();
  subject.profile.model.placement = "";
  for (const std::size_t layer : {0, 1}) {
    for (const SublayerKind sublayer : {kAttention, kFeedForward})
      at(subject, layer, sublayer, Point::kSum).from_x = 1.7;
  }
  at(subject, 1, kFeedForward, Point::kSum).from_x = 1;
  EXPECT_THAT(found(subject), ElementsAre("residual-factor, layer 1, feed-forward",
                                          "residual-factor, layer 0, attention (note)",
                                          "residual-factor, layer 0, feed-forward (note)",
                                          "residual-factor, layer 1, attention (note)"));
}

TEST(Rules, ExpectOfABranchTheFactorOfItsPlaceInTheModule) {
  Subject subject = sound();
  subject.profile.model.placement = "";
  at(subject, 0, kFeedForward, Point::kSum).from_branch = 0.5;
  at(subject, 0, kAttention, Point::kSum).from_branch = 0.5;
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

TEST(Rules, SeeLogitsThatGrowUntilQueriesLookAtOneKey) {
  Subject subject = sound();
  probe::ProfileEntry& scores = at(subject, 1, kAttention, Point::kScores);
  scores.rms = 40;
  scores.abs_max = 200;
  scores.entropy = 0.05;
  EXPECT_THAT(found(subject), ElementsAre("attention-saturated, layer 1, attention (note)"));
  probe::ProfileEntry before = scores;
  before.step = 0;
  before.rms = 1;
  subject.profile.entries.insert(subject.profile.entries.begin(), before);
  EXPECT_THAT(found(subject), ElementsAre("attention-logits-grow, layer 1, attention"));
  at(subject, 1, kAttention, Point::kScores);
  subject.profile.entries.back().entropy = 0.5;  // large, but queries look at many keys
  EXPECT_THAT(found(subject), IsEmpty());
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
  probe::ProfileEntry& deviation = at(subject, 0, kAttention, Point::kDeviation);
  deviation.site.norm = NormSlot::kBefore;
  deviation.rms = 0.004;  // √(6e-6 + 1e-5)
  EXPECT_THAT(found(subject),
              ElementsAre("epsilon-large, layer 0, attention, norm before it (note)"));
}

/// The finding of one check on a subject before training: "rule, severity", or nothing.
std::string judged(io::Check check) {
  Subject subject = sound();
  for (probe::ProfileEntry& entry : subject.profile.entries) entry.step = 0;
  probe::ProfileEntry gamma{.site = {0, kAttention, Point::kGamma, NormSlot::kBefore}, .mean = 1};
  gamma.std = 0;
  subject.profile.entries.push_back(gamma);
  subject.profile.checks = {std::move(check)};
  std::string text;
  for (const Finding& f : diagnose(subject)) {
    const char* severity = f.severity == Severity::kBroken       ? "broken"
                           : f.severity == Severity::kSuspicious ? "suspicious"
                                                                 : "note";
    text += fmt::format("{}{}, {}", text.empty() ? "" : "; ", f.rule, severity);
  }
  return text;
}

TEST(BehaviourRules, JudgeWhatIsAboveTheirLimit) {
  struct Case {
    const char* name;
    double limit, sound, wrong;
    const char* severity;  // undeclared
    const char* declared;
  };
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const Case cases[] = {
      {"future-leak", 1e-5, 1e-5, 1.1e-5, "suspicious", "broken"},
      {"batch-leak", 1e-5, 1e-5, 1.1e-5, "suspicious", "broken"},
      {"padding-leak", 1e-4, 1e-4, 1.1e-4, "suspicious", "suspicious"},
      {"cache-mismatch", 1e-4, 1e-4, 1.1e-4, "broken", "broken"},
      {"eval-noise", 1e-4, 1e-4, 1.1e-4, "note", "suspicious"},
      {"gradient-missing", kNone, 0, 1, "suspicious", "broken"},
      {"gamma-ignored", kNone, 0, 1, "broken", "broken"},
      {"statistics-detached", 0.1, 0.1, 0.11, "broken", "broken"},
      {"tying-broken", 1, 1, 2, "suspicious", "broken"},
      {"dropout-on-stream", kNone, 0, 0.1, "suspicious", "suspicious"},
      {"attention-scale", 0.125, 0.25, 0.26, "suspicious", "suspicious"},
      {"norm-shared", 1, 1, 2, "note", "suspicious"},
      {"norm-unused", kNone, 0, 1, "suspicious", "suspicious"},
      {"parameter-unused", kNone, 0, 1, "note", "suspicious"},
      {"parameter-unregistered", kNone, 0, 1, "broken", "broken"},
      {"layer-shared", 1, 1, 2, "note", "note"},
      {"parameter-frozen", kNone, 0, 0.1, "note", "suspicious"},
      {"not-in-optimizer", 0, 0, 0.5, "suspicious", "suspicious"},
      {"not-in-optimizer", 0, 0, 0.51, "note", "suspicious"},
      {"initial-loss", 3.4, 5.4, 5.41, "suspicious", "suspicious"},
      {"update-ratio", 0, 0.5, 0.51, "suspicious", "suspicious"},
      {"update-ratio", 0.002, 0.002, 0.0019, "suspicious", "suspicious"},
      {"update-ratio", 0.002, 0, 0.0019, "suspicious", "suspicious"},
      {"update-missing", kNone, 0, 1, "suspicious", "suspicious"},
      {"update-missing", 0.002, 0.002, 0.0019, "suspicious", "suspicious"},
      {"gradient-not-cleared", 0, 0, 0.25, "suspicious", "suspicious"},
      {"ranks-differ", 0, 0, 1, "broken", "broken"},
      {"decay-on-gain", 0, 0, 0.1, "note", "note"},
  };
  for (const Case& c : cases) {
    const io::Check check{.name = c.name, .value = c.sound, .limit = c.limit, .where = "here"};
    EXPECT_EQ(judged(check), "") << c.name;
    io::Check wrong = check;
    wrong.value = c.wrong;
    EXPECT_EQ(judged(wrong), fmt::format("{}, {}", c.name, c.severity));
    wrong.declared = "it says so";
    EXPECT_EQ(judged(wrong), fmt::format("{}, {}", c.name, c.declared));
  }
}

TEST(BehaviourRules, SayWhereAndWhyInWords) {
  Subject subject;
  subject.profile.checks = {{.name = "future-leak",
                             .value = 0.125,
                             .limit = 1e-5,
                             .where = "layers.2",
                             .declared = "it is trained on the next token"}};
  const Finding finding = diagnose(subject).at(0);
  EXPECT_EQ(finding.where, "layers.2");
  EXPECT_EQ(finding.what,
            "the output at one token depends on later ones, by 12.5 % of its gradient");
  EXPECT_THAT(finding.because, ::testing::EndsWith("; it is trained on the next token"));
  subject.profile.checks[0].name = "something-new";  // of a later version
  EXPECT_THAT(diagnose(subject), IsEmpty());
}

TEST(BehaviourRules, KnowWhoScalesByInitializationAndWhoWasTrained) {
  Subject subject = sound();
  subject.profile.checks = {{.name = "attention-scale", .value = 1, .limit = 0.125},
                            {.name = "initial-loss", .value = 20, .limit = 3.4}};
  EXPECT_THAT(found(subject), ElementsAre("attention-scale, model"));
  subject.profile.model.model_type = "t5";
  EXPECT_THAT(found(subject), IsEmpty());
}

TEST(Layers, HaveSharesByWhatTheSumAddsUp) {
  Subject subject = sound();
  at(subject, 1, kFeedForward, Point::kX).rms = 2;
  std::vector<LayerNumbers> layers = layer_numbers(subject, 7);
  EXPECT_EQ(layers[1].attention, 0.5);
  EXPECT_EQ(layers[1].feed_forward, 0.25);
  EXPECT_EQ(layers[1].middle, 2);
  subject.profile.model.placement = "deepnorm";  // skip 4^(1/4)
  layers = layer_numbers(subject, 7);
  EXPECT_DOUBLE_EQ(layers[0].attention, 0.5 / std::pow(4, 0.25));
  subject.profile.model.placement = "rezero";  // learned: nobody knows
  EXPECT_TRUE(std::isnan(layer_numbers(subject, 7)[0].attention));
}

TEST(Layers, WorkAsDeepAsTheyTurnTheStream) {
  const auto depth = [](const std::vector<double>& cosines) {
    std::vector<LayerNumbers> layers;
    layers.reserve(cosines.size());
    for (const double cosine : cosines) layers.push_back({.cosine = cosine});
    return effective_depth(layers);
  };
  EXPECT_DOUBLE_EQ(depth({0.9, 0.9, 0.9}), 3);
  EXPECT_DOUBLE_EQ(depth({1, 0.3, 1}), 1);
  EXPECT_TRUE(std::isnan(depth({})));
}

TEST(Layers, AddUpWhatEachSublayerReads) {
  Subject subject = sound();
  at(subject, 0, kAttention, Point::kBranch).rms = 3;  // 3 beside 1 …
  at(subject, 0, kFeedForward, Point::kX).rms = 3.2;   // … which the feed-forward reads
  at(subject, 0, kFeedForward, Point::kBranch).rms = 1.6;
  const Band band = stream_band(subject, layer_numbers(subject, 7));
  EXPECT_DOUBLE_EQ(band.low.at(1), std::sqrt(1 + 9 + 1.6 * 1.6));
  EXPECT_DOUBLE_EQ(band.high.at(1), 1 + 3 + 1.6);
}

}  // namespace
}  // namespace addnorm::doctor
