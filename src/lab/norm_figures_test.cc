#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "lab/figure.h"
#include "support/figure_verdicts.h"
#include "support/long_tests.h"

/// The figures of one norm agree with theory for any seed, and disagree if the measured code has a
/// bug.

namespace addnorm::lab {
namespace {

using testing::run_figure;

/// Returns the claims that do not hold, with their measurements.
std::string outside(const FigureResult& result) {
  std::string claims;
  for (const Check& check : result.checks) {
    if (check.verdict() != Verdict::kOutside) continue;
    claims += check.claim.text() + ": " + std::to_string(check.measured) + " " +
              check.detail.text() + "\n";
  }
  return claims;
}

constexpr const char* kNames[] = {"epsilon",   "instability",   "layer-vs-batch",
                                  "layernorm", "norm-backward", "pipeline"};

TEST(NormFigures, AgreeWithTheoryOnSeedsThatTheyWereNotMadeWith) {
  for (const char* name : kNames) {
    for (int i = 1; i <= testing::further_seeds(); ++i) {
      const std::uint64_t seed = 1000 * i;
      const FigureResult result = run_figure(name, {.seed = seed});
      EXPECT_EQ(result.verdict(), Verdict::kInside) << name << ", seed " << seed << "\n"
                                                    << outside(result);
    }
  }
}

TEST(NormFigures, AgreeWithTheoryAtTheSmallestAndWhereSamplingErrorsAreSmall) {
  for (const char* name : kNames) {
    const FigureOptions own = find_figure(name).defaults();
    FigureOptions smallest{.width = own.width == 0 ? 0U : 16U, .seeds = own.seeds == 0 ? 0U : 1U};
    EXPECT_EQ(outside(run_figure(name, smallest)), "") << name;
    if (own.seeds == 0) continue;
    EXPECT_EQ(outside(run_figure(name, {.width = smallest.width, .seeds = 40})), "") << name;
  }
}

/// Returns the curve and its limits, enlarged by a thousandth, or by 0.001 if the curve is 0.
Series moved(Series curve) {
  const bool is_zero = std::ranges::max(curve.high) < 1e-3;
  for (auto* values : {&curve.y, &curve.low, &curve.high}) {
    for (double& v : *values) v = is_zero ? v + 1e-3 : v * 1.001;
  }
  return curve;
}

TEST(NormFigures, SeeAThousandthInAllThatIsNotSampled) {
  const std::set<std::string> sampled = {
      "Features before", "Features after", "Error of BatchNorm's statistics",
      "Rows stored in 16 bits", "How much of the gradient is lost"};
  for (const char* name : kNames) {
    for (const Panel& panel : run_figure(name, {}).panels) {
      if (sampled.contains(panel.title.id)) continue;
      for (const Series& predicted : panel.predicted) {
        const auto measured = std::ranges::find(panel.measured, predicted.name, &Series::name);
        ASSERT_NE(measured, panel.measured.end()) << predicted.name;
        const auto verdict = [&](const Series& curve) {
          return check_curve("", "", *measured, curve).verdict();
        };
        EXPECT_EQ(verdict(predicted), Verdict::kInside) << panel.title.id << ", " << predicted.name;
        EXPECT_EQ(verdict(moved(predicted)), Verdict::kOutside)
            << panel.title.id << ", " << predicted.name;
      }
    }
  }
}

TEST(NormFigures, SeeBugs) {
  struct Breakage {
    const char* figure;
    std::vector<const char*> bugs;
  };
  const Breakage breakages[] = {
      {"epsilon",
       {"half-statistics", "residual-missing", "norm-missing", "rms-for-layer", "one-plus-gamma",
        "epsilon-outside"}},
      {"instability",
       {"half-statistics", "residual-missing", "residual-twice", "norm-missing", "rms-for-layer",
        "one-plus-gamma"}},
      {"layer-vs-batch",
       {"half-statistics", "residual-missing", "norm-missing", "rms-for-layer", "one-plus-gamma",
        "epsilon-outside"}},
      {"layernorm",
       {"half-statistics", "residual-missing", "residual-twice", "norm-missing", "rms-for-layer",
        "one-plus-gamma", "epsilon-outside"}},
      {"norm-backward",
       {"residual-missing", "residual-twice", "norm-missing", "rms-for-layer", "one-plus-gamma",
        "epsilon-outside"}},
      {"pipeline",
       {"half-statistics", "residual-missing", "residual-twice", "no-residual", "norm-missing",
        "rms-for-layer", "one-plus-gamma", "epsilon-outside"}},
  };
  for (const auto& [figure, bugs] : breakages) {
    for (const char* bug : bugs) {
      EXPECT_EQ(run_figure(figure, {.bug = &find_silent_bug(bug)}).verdict(), Verdict::kOutside)
          << figure << " with " << bug;
    }
  }
}

}  // namespace
}  // namespace addnorm::lab
