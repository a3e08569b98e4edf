#include "lab/study.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>

#include "addnorm/error.h"

namespace addnorm::lab {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::ThrowsMessage;

StudyOptions small() {
  StudyOptions options{.placements = {"plain", "pre"}, .seeds = 2};
  run::RunConfig& config = options.config;
  config.layers = 2, config.width = 8, config.heads = 2, config.context = 8;
  config.batch = 2, config.steps = 3, config.warm_up = 2;
  return options;
}

train::ByteText some_text() {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += static_cast<char>('a' + (i * i) % 17);
  return {text, 8};
}

Study run(const StudyOptions& options) {
  return run_study(options, some_text(), [](std::size_t, std::size_t) {});
}

std::vector<double> numbers(const Study& study) {
  std::vector<double> all;
  for (const StudyRun& r : study.runs) {
    all.insert(all.end(), r.losses.begin(), r.losses.end());
    all.push_back(r.validation_loss);
    for (const probe::ProfileEntry& e : r.initial) all.push_back(e.rms);
  }
  return all;
}

TEST(Study, GivesTheSameBitsEveryTimeAndForAnyNumberOfThreads) {
  const int threads = omp_get_max_threads();
  const std::vector<double> first = numbers(run(small()));
  EXPECT_EQ(numbers(run(small())), first);
  omp_set_num_threads(1);
  EXPECT_EQ(numbers(run(small())), first);
  omp_set_num_threads(threads);
}

TEST(Study, TrainsEveryPlacementAndSeedWithoutAndWithWarmUp) {
  std::size_t last = 0;
  const Study study = run_study(small(), some_text(), [&](std::size_t done, std::size_t all) {
    last = done;
    EXPECT_EQ(all, 2U * 2U * 2U * 3U);
  });
  EXPECT_EQ(last, 24U) << "progress ends at all steps";
  ASSERT_EQ(study.runs.size(), 8U);
  EXPECT_EQ(study.runs[2].seed, 1U);
  EXPECT_EQ(study.runs[5].placement, "pre");
  EXPECT_EQ(study.runs[5].warm_up, 2U);
  EXPECT_EQ(study.other_initializations.size(), 2U * 2U * 2U);
}

TEST(Study, WarmUpChangesTheTrainingAndNotTheModel) {
  const Study study = run(small());
  EXPECT_EQ(study.runs[0].initial.front().rms, study.runs[1].initial.front().rms);
  EXPECT_EQ(study.runs[0].losses[0], study.runs[1].losses[0]);
  EXPECT_NE(study.runs[0].losses[2], study.runs[1].losses[2]);
}

TEST(Study, RejectsOptionsBeforeItWorks) {
  auto check = [](auto change) {
    StudyOptions options = small();
    change(options);
    check_study(options);
  };
  EXPECT_THAT([&] { check([](StudyOptions& o) {
                      o.placements = {"pre", "prae"};
                    }); },
              ThrowsMessage<Error>(AllOf(HasSubstr("prae"), HasSubstr("sandwich"))));
  EXPECT_THROW(check([](StudyOptions& o) { o.config.layers = 0; }), Error);
  EXPECT_THROW(check([](StudyOptions& o) { o.config.warm_up = 4; }), Error);
  EXPECT_THROW(check([](StudyOptions& o) { o.seeds = 0; }), Error);
  EXPECT_THROW(check([](StudyOptions& o) { o.config.heads = 3; }), Error);
  EXPECT_THROW(check([](StudyOptions& o) { o.config.learning_rate = NAN; }), Error);
  EXPECT_THROW(check([](StudyOptions& o) { o.config.epsilon = -1; }), Error);
  EXPECT_THROW(check([](StudyOptions& o) { o.config.dropout = 1; }), Error);
  EXPECT_THROW(check([](StudyOptions& o) {
                 o.config.layers = 12, o.config.width = 100, o.config.heads = 1;
                 o.config.feed_forward = 1'000'000;
               }),
               Error);
}

TEST(Study, WarmsUpOverHalfOfTheStepsWhereNothingElseIsSaid) {
  StudyOptions options = small();
  options.config.warm_up = 0;
  EXPECT_EQ(options.warm_up(), 1U) << "of 3 steps";
  options.config.steps = 1;
  EXPECT_EQ(options.warm_up(), 1U);
  options.config.steps = 10;
  EXPECT_EQ(options.warm_up(), 5U);
}

/// The measurements of a study: stream and gradient by layer, and a loss for each seed.
struct Measured {
  std::string placement = "post";
  std::vector<double> stream = {1, 1, 1};
  std::vector<double> gradient = {1, 1, 1};
  std::vector<double> without = {2.0, 2.1};
  std::vector<double> with = {2.0, 2.1};
};

StudyRun made_up_run(const Measured& m, std::size_t seed, std::size_t warm_up) {
  StudyRun run{.placement = m.placement, .seed = seed, .warm_up = warm_up};
  for (std::size_t l = 0; l < 3; ++l) {
    const Site site = l < 2 ? Site{l, SublayerKind::kAttention, Point::kX}
                            : Site{1, SublayerKind::kFeedForward, Point::kSum};
    run.initial.push_back({.site = site, .rms = m.stream[l], .grad_rms = m.gradient[l]});
  }
  run.validation_loss = (warm_up == 0 ? m.without : m.with)[seed];
  return run;
}

StudyFinding find(const Measured& m) {
  Study study{.options = small(), .unigram_loss = 3.5};
  study.options.placements = {m.placement};
  for (std::size_t seed = 0; seed < 2; ++seed) {
    study.runs.push_back(made_up_run(m, seed, 0));
    study.runs.push_back(made_up_run(m, seed, 2));
    for (const Initialization other : {Initialization::kXavier, Initialization::kGpt2}) {
      study.other_initializations.push_back(made_up_run(m, seed, 0));
      study.other_initializations.back().initialization = other;
    }
  }
  return study_findings(study).front();
}

Holds claim_holds(const Measured& m) {
  return study_claims({find(m)}).front().holds;
}

TEST(StudyFindings, TellWhetherWarmUpIsNeeded) {
  EXPECT_EQ(find({}).training, Training::kTrains);
  EXPECT_EQ(find({.without = {3.5, 3.6}}).training, Training::kNeedsWarmUp);
  EXPECT_EQ(find({.without = {2.6, 2.6}}).training, Training::kNeedsWarmUp);
  EXPECT_EQ(find({.without = {2.1, 2.15}}).training, Training::kTrains) << "within the margin";
  EXPECT_EQ(find({.without = {2.0, 3.0}}).training, Training::kTrains) << "within the spread";
  EXPECT_EQ(find({.without = {3.5, 3.5}, .with = {3.5, 3.5}}).training, Training::kFails);
  EXPECT_EQ(find({.without = {NAN, 2.0}}).training, Training::kNeedsWarmUp);
  EXPECT_EQ(find({.without = {NAN, 2.0}}).diverged, 1U);
}

TEST(StudyFindings, TellWhetherSignalAndGradientAreKept) {
  EXPECT_EQ(find({}).stream, Strength::kKeeps);
  EXPECT_EQ(find({.stream = {1, 0.1, 0.001}}).stream, Strength::kVanishes);
  EXPECT_EQ(find({.stream = {1, 10, 1000}}).stream, Strength::kExplodes);
  EXPECT_EQ(find({.stream = {1, 0, 0}}).stream, Strength::kVanishes);
  EXPECT_EQ(find({.gradient = {3e-9, 1, 1}}).gradient, Strength::kVanishes);
  EXPECT_EQ(find({.gradient = {0, 0, 1}}).gradient, Strength::kVanishes);
}

TEST(StudyFindings, WhatOverflowsExplodes) {
  for (const double last : {double{INFINITY}, double{NAN}}) {
    const StudyFinding finding =
        find({.placement = "none", .stream = {1, INFINITY, last}, .gradient = {NAN, NAN, NAN}});
    EXPECT_EQ(finding.stream, Strength::kExplodes);
    EXPECT_EQ(finding.gradient, Strength::kExplodes);
    EXPECT_THAT(finding.verdict.text(),
                AllOf(HasSubstr("the stream overflows float32"),
                      HasSubstr("layers 0 and 1 have no finite ratio"), Not(HasSubstr("nan"))));
    const StudyClaim claim = study_claims({finding}).front();
    EXPECT_EQ(claim.holds, Holds::kYes);
    EXPECT_THAT(claim.evidence.text(), Not(AnyOf(HasSubstr("nan"), HasSubstr("inf "))));
  }
}

TEST(StudyFindings, VerdictsSayTheNumbers) {
  EXPECT_THAT(find({.placement = "plain", .gradient = {3e-9, 1, 1}}).verdict.text(),
              HasSubstr("the gradient of layer 0 is 3e-09 times layer 1's"));
  EXPECT_THAT(find({.without = {3.5, 3.5}}).verdict.text(),
              HasSubstr("needs warm-up: the loss is 3.50 without and 2.05 with it"));
  EXPECT_THAT(find({.stream = {1, 10, 4000}}).verdict.text(), HasSubstr("grows 4e+03-fold"));
  EXPECT_THAT(find({.without = {NAN, 2.0}}).verdict.text(), HasSubstr("1 of 4 runs diverged"));
}

TEST(StudyFindings, HaveTheirWordsAndNumbersInALanguage) {
  const Language language{
      .translations = {{"{0} and {1}; {2}", "{0} und {1}; {2}"},
                       {"it needs warm-up: the loss is {0} without and {1} with it",
                        "mit Warm-up {1}, ohne {0}"}},
      .decimal_comma = true};
  EXPECT_THAT(find({.without = {3.5, 3.5}}).verdict.text(language),
              AllOf(HasSubstr(" und the gradient"), HasSubstr("; mit Warm-up 2,05, ohne 3,50.")));
}

TEST(StudyFindings, CountTheSeedsThatAgreeWithTheWhole) {
  EXPECT_EQ(find({}).agreeing_seeds(), 2U);
  const StudyFinding mixed = find({.without = {2.0, 3.0}});  // only the second seed needs warm-up
  EXPECT_EQ(mixed.agreeing_seeds(), 1U);
  EXPECT_EQ(mixed.by_seed[1].training, Training::kNeedsWarmUp);
  EXPECT_THAT(mixed.by_seed[1].by_seed, IsEmpty());
  const StudyClaim claim = study_claims({mixed}).front();
  EXPECT_EQ(claim.agreeing_seeds, 1U);
  EXPECT_THAT(claim.evidence.text(), HasSubstr("; the same on 1 of 2 seeds"));
}

TEST(StudyClaims, CanBeDenied) {
  EXPECT_EQ(claim_holds({.placement = "post", .without = {3.5, 3.5}}), Holds::kYes);
  EXPECT_EQ(claim_holds({.placement = "post"}), Holds::kNo);
  EXPECT_EQ(claim_holds({.placement = "pre"}), Holds::kYes);
  EXPECT_EQ(claim_holds({.placement = "pre", .without = {3.5, 3.5}}), Holds::kNo);
  EXPECT_EQ(claim_holds({.placement = "plain", .gradient = {1e-9, 1, 1}}), Holds::kYes);
  EXPECT_EQ(claim_holds({.placement = "none"}), Holds::kNo);
}

TEST(Spread, IsTheSampleStandardDeviation) {
  EXPECT_DOUBLE_EQ(spread_of({1, 2, 3}).mean, 2);
  EXPECT_DOUBLE_EQ(spread_of({1, 2, 3}).deviation, 1);
  EXPECT_DOUBLE_EQ(spread_of({5}).deviation, 0);
}

}  // namespace
}  // namespace addnorm::lab
