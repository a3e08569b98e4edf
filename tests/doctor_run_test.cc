// The doctor on runs of `addnorm train`, and on settings of such runs.

#include <gmock/gmock.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "doctor/diagnose.h"
#include "doctor/prove.h"
#include "io/temporary_folder.h"
#include "report/doctor_bands.h"

namespace addnorm {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Returns the rules that find a defect, in their order.
std::vector<std::string> rules_that_find(const doctor::Subject& subject) {
  std::vector<std::string> rules;
  for (const doctor::Finding& f : doctor::diagnose(subject)) {
    if (f.severity != doctor::Severity::kNote) rules.emplace_back(f.rule);
  }
  return rules;
}

/// Returns a run whose loss falls from 5.5 towards 2, with the noise of batches.
doctor::Subject run_of(std::size_t steps, unsigned seed = 0) {
  doctor::Subject subject{.config = run::RunConfig(), .unigram_loss = 3.3};
  std::mt19937 generator(seed);
  std::normal_distribution<double> noise(0, 0.05);
  for (std::size_t s = 1; s <= steps; ++s) {
    const double loss = 2 + 3.5 * std::exp(-static_cast<double>(s) / 150) + noise(generator);
    subject.metrics.steps.push_back({.step = s, .loss = loss});
  }
  return subject;
}

TEST(RunRules, AreSilentWhereTheLossFalls) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    EXPECT_THAT(rules_that_find(run_of(40 + 37 * seed, seed)), IsEmpty()) << seed;
  }
}

TEST(RunRules, SeeALossThatJumpsRisesOrStands) {
  doctor::Subject spike = run_of(500);
  spike.metrics.steps[300].loss = 4;
  EXPECT_THAT(rules_that_find(spike), ElementsAre("loss-spikes"));

  doctor::Subject rise = run_of(500);
  for (std::size_t s = 300; s < 500; ++s) {
    rise.metrics.steps[s].loss += 0.005 * static_cast<double>(s - 300);
  }
  EXPECT_THAT(rules_that_find(rise), ElementsAre("loss-rises"));

  doctor::Subject stall = run_of(500);
  for (run::StepMetrics& step : stall.metrics.steps) step.loss = std::max(step.loss, 3.3);
  EXPECT_THAT(rules_that_find(stall), ElementsAre("training-stalls"));
  stall.metrics.steps.resize(250);  // 100 of them are warm-up, so it is too early for a judgement
  EXPECT_THAT(rules_that_find(stall), IsEmpty());

  doctor::Subject end = run_of(100);
  end.metrics.steps.push_back({.step = 101, .loss = NAN});
  end.metrics.stopped = "the loss of step 101 is not finite";
  EXPECT_THAT(rules_that_find(end), ElementsAre("training-stopped"));
}

train::ByteText some_text() {
  std::string text;
  for (int i = 0; i < 500; ++i)
    text += "Line " + std::to_string(i * 7 % 500) + ": add, then norm.\n";
  return {text, 32};
}

/// Returns settings of a network that trains in a second.
run::RunConfig small_settings() {
  return {.layers = 2,
          .width = 32,
          .heads = 2,
          .context = 32,
          .batch = 8,
          .steps = 1000,
          .warm_up = 10,
          .validation_batches = 1};
}

doctor::Subject subject_of(const run::RunConfig& config, const train::ByteText& text) {
  const io::TemporaryFolder folder;
  doctor::OpenedModel opened = doctor::open_settings(config, folder.path(), text);
  doctor::examine(opened.model, doctor::text_tokens(text, config.context), opened.subject);
  opened.subject.unigram_loss = text.unigram_loss();
  return opened.subject;
}

TEST(SettingsRules, FindNothingInNormsOfAnyKind) {
  const train::ByteText text = some_text();
  run::RunConfig config = small_settings();
  for (const auto& [norm, affine] : {std::pair{"dyt", "gamma-beta"},
                                     {"derf", "gamma-beta"},
                                     {"dyt", "none"},
                                     {"rms", "scalar-gamma"},
                                     {"layer", "none"}}) {
    for (const char* placement :
         {"pre", "post", "sandwich", "peri", "deepnorm", "residual-dual", "siamese", "mhc"}) {
      for (const std::uint64_t layers : {2, 12}) {
        config.norm = norm, config.affine = affine;
        config.placement = placement, config.layers = layers, config.warm_up = 100;
        // At each of 24 sums the gradient is halved: α is 0.5, and the stream is small.
        const bool halves = placement == std::string("post") && layers == 12 &&
                            squashes(parse<NormKind>("norm", norm));
        const std::vector<std::string> expected =
            halves ? std::vector<std::string>{"gradient-vanishes"} : std::vector<std::string>{};
        EXPECT_EQ(rules_that_find(subject_of(config, text)), expected)
            << placement << ", " << norm << ", " << affine << ", " << layers << " layers";
      }
    }
  }
}

TEST(SettingsRules, FindNothingInAnyPlacementThatIsInUse) {
  const train::ByteText text = some_text();
  for (const Placement& placement : placements()) {
    if (placement.name == "plain") continue;  // no residual: below
    // A deep stack without a norm is not sound either, unless its initial weights are small.
    for (const char* init : {"gpt2", "xavier"}) {
      for (const std::uint64_t layers : {2, 12}) {
        if (layers == 12 && placement.name == "none" && init == std::string("xavier")) continue;
        if (layers == 12 && placement.name == "highway") continue;  // it has no norm either
        run::RunConfig config = small_settings();
        config.placement = placement.name;
        config.initialization = init;
        config.layers = layers;
        config.warm_up = 100;
        EXPECT_THAT(rules_that_find(subject_of(config, text)), IsEmpty())
            << placement.name << ", " << init << ", " << layers << " layers";
      }
    }
  }
}

TEST(Proof, APlacementWithAResidualMendsGradientsThatVanish) {
  const train::ByteText text = some_text();
  run::RunConfig config = small_settings();
  config.placement = "plain";
  config.initialization = "xavier";
  config.layers = 24;
  const doctor::Subject subject = subject_of(config, text);
  const std::vector<doctor::Finding> findings = doctor::diagnose(subject);
  ASSERT_THAT(rules_that_find(subject), ElementsAre("gradient-vanishes", "tokens-collapse"));
  const std::vector<doctor::Proof> proofs = doctor::prove_by_training(subject, findings, text, 3);
  ASSERT_EQ(proofs.size(), 2u);
  EXPECT_EQ(proofs[0].change, "placement \"plain\" → \"pre\"");
  EXPECT_LT(proofs[0].before, 1e-3);
  EXPECT_GT(proofs[0].after, 0.3);
  EXPECT_GT(proofs[1].before, 0.99);
  EXPECT_LT(proofs[1].after, 0.9);
  for (const doctor::Proof& proof : proofs)
    EXPECT_TRUE(proof.was_found && proof.is_mended) << proof.rule;
}

TEST(SettingsRules, SeeGradientsExplodeWithoutANorm) {
  run::RunConfig config = small_settings();
  config.placement = "none";
  config.initialization = "xavier";
  config.layers = 24;
  EXPECT_THAT(rules_that_find(subject_of(config, some_text())), ElementsAre("gradient-explodes"));
}

TEST(Proof, WarmUpMendsAPostNormStackOfLargeBranches) {
  const train::ByteText text = some_text();
  run::RunConfig config = small_settings();
  config.placement = "post";
  config.initialization = "xavier";
  config.layers = 12;
  config.learning_rate = 2e-3;
  config.warm_up = 0;
  const doctor::Subject subject = subject_of(config, text);
  ASSERT_THAT(rules_that_find(subject), ElementsAre("warm-up-missing"));
  const std::vector<doctor::Proof> proofs =
      doctor::prove_by_training(subject, doctor::diagnose(subject), text, 150);
  ASSERT_EQ(proofs.size(), 1u);
  EXPECT_EQ(proofs[0].change, "warm-up 0 → 100");
  EXPECT_LT(proofs[0].after, 0.9 * proofs[0].before);
}

TEST(Proof, AnotherRateMendsSettingsThatLearnNothing) {
  const train::ByteText text = some_text();
  for (const double rate : {10.0, 1e-8}) {
    run::RunConfig config = small_settings();
    config.learning_rate = rate;
    config.clip = 0;
    const doctor::Subject subject = doctor::try_settings(config, text, 250);
    EXPECT_EQ(doctor::try_settings(config, text, 20).metrics.steps.at(19).loss,
              subject.metrics.steps.at(19).loss);  // a shorter trial equals its beginning
    const std::vector<doctor::Finding> findings = doctor::diagnose(subject);
    const auto stall = std::ranges::find(findings, "training-stalls", &doctor::Finding::rule);
    ASSERT_NE(stall, findings.end()) << rate;
    const std::vector<doctor::Proof> proofs =
        doctor::prove_by_training(subject, {*stall}, text, 250);
    EXPECT_EQ(proofs.front().before, stall->measured);
    EXPECT_TRUE(proofs.back().is_mended) << proofs.back().change << ": " << proofs.back().after;
  }
}

TEST(Proof, KnowsTheLossOfByteFrequenciesWhereTrainingStops) {
  const train::ByteText text = some_text();
  run::RunConfig config = small_settings();
  config.placement = "none";
  config.learning_rate = 1e30;
  config.clip = 0;
  const doctor::Subject subject = doctor::try_settings(config, text, 20);
  ASSERT_NE(subject.metrics.stopped, "");
  EXPECT_EQ(subject.unigram_loss, text.unigram_loss());
}

TEST(Proof, WithoutALimitMendsByMoreThanOnePercent) {
  const train::ByteText text = some_text();
  doctor::Subject subject{.config = small_settings()};
  subject.config->learning_rate = 1;
  const auto is_mended = [&](double rate) {
    doctor::Finding finding{.rule = "warm-up-missing"};
    finding.remedies = {
        {.change = "rate", .settings = [rate](run::RunConfig& c) { c.learning_rate = rate; }}};
    finding.measure = {.name = "rate",
                       .of = [](const doctor::Subject& s) { return s.config->learning_rate; },
                       .is_initial = true};
    return doctor::prove_by_training(subject, {finding}, text, 20).at(0).is_mended;
  };
  EXPECT_TRUE(is_mended(0.989));
  EXPECT_FALSE(is_mended(0.991));
}

/// Proofs train with the run's own data: the loss before a change is that of the run's first steps.
TEST(Proof, TrainsARunAsItWasTrained) {
  const train::ByteText text = some_text();
  run::RunConfig config = small_settings();
  config.placement = "none";
  config.layers = 8;
  config.learning_rate = 100;  // without a norm the values overflow after a few steps
  config.clip = 0;
  const io::TemporaryFolder folder;
  const run::RunFiles files(folder.path());
  const run::RunOutcome outcome = run::run_training(config, files, text, {});
  ASSERT_EQ(outcome.end, run::RunOutcome::End::kNotFinite);
  const doctor::Subject subject = doctor::read_run(files);
  const std::vector<doctor::Finding> findings = doctor::diagnose(subject);
  ASSERT_EQ(findings.at(0).rule, "training-stopped");
  const std::vector<doctor::Proof> proofs =
      doctor::prove_by_training(subject, findings, text, outcome.steps + 5);
  ASSERT_FALSE(proofs.empty());
  EXPECT_EQ(proofs[0].change, "placement \"none\" → \"pre\"");
  EXPECT_TRUE(std::isinf(proofs[0].before));
  EXPECT_TRUE(proofs[0].was_found && proofs[0].is_mended) << proofs[0].after;
}

/// The bands hold up to the fluctuations of such a narrow stack.
TEST(Bands, HoldTheStreamAndItsGradientBeforeTraining) {
  const train::ByteText text = some_text();
  for (const char* placement : {"pre", "sandwich", "reordered", "post", "deepnorm"}) {
    for (const std::uint64_t seed : {0, 1, 2}) {
      run::RunConfig config = small_settings();
      config.placement = placement;
      config.initialization = "xavier";
      config.layers = 8;
      config.seed = seed;
      const doctor::Subject subject = subject_of(config, text);
      const std::vector<doctor::LayerNumbers> layers = doctor::layer_numbers(subject, 0);
      const auto expect_inside = [&](const report::Band& band,
                                     double doctor::LayerNumbers::*member) {
        for (std::size_t i = 0; i < band.layer.size(); ++i) {
          const double value = layers[static_cast<std::size_t>(band.layer[i])].*member;
          EXPECT_GE(value, 0.9 * band.low[i]) << placement << ", layer " << band.layer[i];
          EXPECT_LE(value, 1.01 * band.high[i]) << placement << ", layer " << band.layer[i];
        }
      };
      const report::Band stream = report::stream_band(subject, layers);
      const report::Band gradient = report::gradient_band(subject, layers);
      const bool adds_up = placement != std::string("post") && placement != std::string("deepnorm");
      EXPECT_EQ(stream.layer.size(), adds_up ? 8u : 7u);
      EXPECT_EQ(gradient.layer.size(), adds_up ? 8u : 0u);
      expect_inside(stream, &doctor::LayerNumbers::stream);
      expect_inside(gradient, &doctor::LayerNumbers::gradient);
    }
  }
}

}  // namespace
}  // namespace addnorm
