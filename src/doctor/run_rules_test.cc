/// The rules of runs one by one, on losses written by hand. tests/doctor_run_test.cc has whole
/// runs.

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/handwritten_profile.h"

namespace addnorm::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

/// The loss of guessing a byte.
const double kGuessing = std::log(256.0);

/// `count` losses around `mean` whose median distance from it is `spread`.
std::vector<double> losses_around(double mean, double spread, std::size_t count) {
  std::vector<double> losses;
  for (std::size_t i = 0; i < count; ++i) {
    losses.push_back(mean + spread * (static_cast<double>(i % 3) - 1));
  }
  return losses;
}

/// A run of a pre-norm stack with these losses.
Subject with_losses(const std::vector<double>& losses) {
  Subject subject;
  subject.profile.model = {.d_model = 8, .n_layers = 2, .placement = "pre"};
  subject.config = run::RunConfig{.learning_rate = 2e-3, .warm_up = 10};
  for (const double loss : losses) {
    subject.metrics.steps.push_back({.step = subject.metrics.steps.size() + 1, .loss = loss});
  }
  return subject;
}

Subject with_loss(double loss, std::size_t steps) {
  return with_losses(std::vector<double>(steps, loss));
}

std::vector<std::string> remedies_of(Rule* rule, const Subject& subject) {
  std::vector<std::string> changes;
  const Finding finding = findings_of(rule, subject).at(0);
  for (const Remedy& remedy : finding.remedies) changes.push_back(remedy.change);
  return changes;
}

TEST(RunRules, SeeALossThatLeapsByAFifthAndTwelveSpreads) {
  const auto judged = [](double spread, double last, std::size_t before = 50) {
    std::vector<double> losses = losses_around(1, spread, before);
    losses.push_back(last);
    return first_found(find_loss_spikes, with_losses(losses));
  };
  EXPECT_EQ(judged(1e-3, 1.199), "");
  EXPECT_EQ(judged(1e-3, 1.201), "loss-spikes");
  EXPECT_EQ(judged(0.05, 1.59), "");
  EXPECT_EQ(judged(0.05, 1.61), "loss-spikes");
  EXPECT_EQ(judged(1e-3, 2, 49), "");
}

TEST(RunRules, MeasureALeapAsItsShare) {
  std::vector<double> losses = losses_around(1, 1e-3, 50);
  losses.push_back(2);
  losses.push_back(1.5);
  const Subject subject = with_losses(losses);
  const Finding spike = findings_of(find_loss_spikes, subject).at(0);
  EXPECT_EQ(spike.where, "step 51");
  EXPECT_EQ(spike.measured, 1);
  EXPECT_EQ(spike.measure.of(subject), 1);
  EXPECT_EQ(spike.measure.of(with_loss(1, 60)), 0);
  std::vector<double> falling(60, 2);
  std::fill_n(falling.begin() + 50, 10, 1);
  EXPECT_EQ(spike.measure.of(with_losses(falling)), 0);
  EXPECT_TRUE(spike.measure.is_sound(0.199));
  EXPECT_FALSE(spike.measure.is_sound(0.201));
  EXPECT_THAT(spike.because, HasSubstr("at most 20 % more, or 12 times"));
}

TEST(RunRules, SeeALossThatRisesByATenth) {
  const auto judged = [](std::size_t falls, double last, std::size_t after) {
    std::vector<double> losses(falls, 1);
    losses.insert(losses.end(), after, last);
    return first_found(find_rising_loss, with_losses(losses));
  };
  EXPECT_EQ(judged(80, 1.09, 20), "");
  EXPECT_EQ(judged(80, 1.11, 20), "loss-rises");
  EXPECT_EQ(judged(79, 2, 20), "") << "of a short run";
  EXPECT_EQ(judged(90, 2, 10), "loss-rises");
  EXPECT_EQ(judged(91, 2, 9), "") << "less than half of the window";
  std::vector<double> losses(100, 2);
  std::fill_n(losses.begin() + 50, 10, 1);  // less than half of any window
  EXPECT_EQ(first_found(find_rising_loss, with_losses(losses)), "");
  losses[60] = 1;
  const Findings findings = findings_of(find_rising_loss, with_losses(losses));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].measure.of(with_losses(losses)), 2);
  EXPECT_TRUE(findings[0].measure.is_sound(1.09));
  EXPECT_FALSE(findings[0].measure.is_sound(1.11));
}

TEST(RunRules, SeeALossThatStandsAtThatOfByteFrequencies) {
  const auto judged = [](double loss, std::size_t steps, double unigram = 3) {
    Subject subject = with_loss(loss, steps);
    subject.unigram_loss = unigram;
    return first_found(find_stalled_training, subject);
  };
  EXPECT_EQ(judged(0.969 * 3, 210), "");
  EXPECT_EQ(judged(0.971 * 3, 210), "training-stalls");
  EXPECT_EQ(judged(3, 209), "") << "200 steps after the warm-up";
  EXPECT_EQ(judged(1.019 * kGuessing, 50), "");
  EXPECT_EQ(judged(1.021 * kGuessing, 50), "training-stalls");
  EXPECT_EQ(judged(1.021 * kGuessing, 49), "");
  EXPECT_EQ(judged(3, 210, NAN), "");
}

TEST(RunRules, SayWhatAStalledRunHasLearnedAndTryAnotherRate) {
  struct Case {
    double share;  ///< of the loss of guessing
    const char* learned;
    bool tries_less;
  };
  for (const auto& [share, learned, tries_less] : {Case{1.021, "worse than guessing", true},
                                                   {1.019, "it has learned nothing", false},
                                                   {0.971, "it has learned nothing", false},
                                                   {0.969, "about their order", true}}) {
    Subject subject = with_loss(share * kGuessing, 210);
    subject.unigram_loss = 4;
    EXPECT_THAT(findings_of(find_stalled_training, subject).at(0).what, EndsWith(learned)) << share;
    const std::vector<std::string> changes = remedies_of(find_stalled_training, subject);
    if (tries_less) {
      EXPECT_THAT(changes, ElementsAre("lr 0.002 → 0.0005", "lr 0.002 → 0.001"));
    } else {
      EXPECT_THAT(changes, ElementsAre("lr 0.002 → 0.001"));
    }
  }
}

TEST(RunRules, CalmARunThatDivergesByItsPlacement) {
  Subject subject = with_loss(2, 5);
  subject.metrics.stopped = "the loss is infinite";
  const auto remedies = [&](const char* placement) {
    subject.profile.model.placement = subject.config->placement = placement;
    return remedies_of(find_stopped_training, subject);
  };
  constexpr auto* kSlower = "lr 0.002 → 0.0005";
  constexpr auto* kLonger = "warm-up 10 → 100";
  EXPECT_THAT(remedies("pre"), ElementsAre(kSlower, kLonger));
  EXPECT_THAT(remedies("deepnorm"), ElementsAre(kSlower, kLonger));
  EXPECT_THAT(remedies("post"), ElementsAre(kLonger, kSlower, R"(placement "post" → "pre")"));
  EXPECT_THAT(remedies("none"), ElementsAre(R"(placement "none" → "pre")", kSlower));
  subject.config->steps = 50;  // a warm-up is not longer than its run
  EXPECT_THAT(remedies("pre"), ElementsAre(kSlower, HasSubstr("steps 50 → 100")));
  const Finding finding = findings_of(find_stopped_training, subject).at(0);
  EXPECT_TRUE(std::isinf(finding.measure.of(subject)));
  EXPECT_EQ(finding.measure.of(with_loss(2, 5)), 2);
  EXPECT_TRUE(finding.measure.is_sound(2));
  EXPECT_FALSE(finding.measure.is_sound(INFINITY));
}

/// Two post-norm layers before training, whose branches are half as large as the stream.
Subject post_norm_start(double pace) {
  Subject subject = sound();
  for (ProfileEntry& entry : subject.profile.entries) entry.step = 0;
  subject.profile.model.placement = "post";
  const double dependence = 4 * std::log(1 + 0.5 * 0.5);
  subject.config =
      run::RunConfig{.layers = 2, .learning_rate = pace / (2 * dependence), .warm_up = 0};
  return subject;
}

TEST(RunRules, WantAWarmUpOfPostNormStacksThatStartFast) {
  const auto judged = [](const Subject& subject) {
    return first_found(find_missing_warm_up, subject);
  };
  EXPECT_EQ(judged(post_norm_start(0.0499)), "");
  EXPECT_EQ(judged(post_norm_start(0.0501)), "warm-up-missing");
  Subject subject = post_norm_start(0.1);
  subject.config->warm_up = 19;
  EXPECT_EQ(judged(subject), "warm-up-missing");
  subject.config->warm_up = 20;
  EXPECT_EQ(judged(subject), "");
  subject.config->warm_up = 1;
  EXPECT_THAT(findings_of(find_missing_warm_up, subject).at(0).what, HasSubstr("after 1 step of"));
  subject.unigram_loss = 2;
  subject.metrics.steps = {{.step = 1, .loss = 1.79}};  // it trains nevertheless
  EXPECT_EQ(judged(subject), "");
  subject.metrics.steps = {{.step = 1, .loss = 1.81}};
  EXPECT_EQ(judged(subject), "warm-up-missing");
  subject.profile.model.placement = "pre";
  EXPECT_EQ(judged(subject), "");
}

}  // namespace
}  // namespace addnorm::doctor
