#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "lab/figure.h"
#include "support/figure_verdicts.h"
#include "support/long_tests.h"

namespace addnorm::lab {
namespace {

using testing::denied;
using testing::further_seeds;
using ::testing::IsEmpty;
using testing::run_figure;

/// Returns a text that does not change.
std::string license() {
  std::ifstream file(ADDNORM_SOURCE_DIR "/LICENSE", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A figure at the smallest useful size, and bugs that it must detect.
struct Quick {
  std::string_view figure;
  FigureOptions options;
  std::vector<std::string> bugs;
};

std::vector<Quick> untrained() {
  return {{"gradient-flow",
           {.layers = {6}, .width = 64},
           {"no-residual", "norm-over-stream", "norm-missing"}},
          {"placement",
           {.layers = {4, 16}, .width = 64},
           {"no-residual", "norm-over-stream", "final-norm-missing", "one-plus-gamma"}},
          {"variance",
           {.layers = {8}, .width = 64, .seeds = 16},
           {"residual-missing", "residual-twice", "norm-over-stream", "scale-lost"}},
          {"norm-kinds-by-depth",
           {.layers = {4, 14, 48}, .width = 64},
           {"no-residual", "norm-over-stream", "norm-missing", "alpha-doubled"}},
          {"rank-collapse", {.layers = {8}, .width = 64}, {"no-residual", "scale-lost"}}};
}

std::vector<Quick> trained() {
  const std::string text = license();
  return {{"warm-up", {.layers = {2, 12}, .seeds = 1, .text = text}, {"norm-over-stream"}},
          {"learning-rate", {.seeds = 1, .text = text}, {"norm-missing"}},
          {"depth",
           {.layers = {6, 24}, .seeds = 1, .placements = {"post", "rezero"}, .text = text},
           {"no-residual"}},
          {"placements",
           {.layers = {4},
            .width = 32,
            .seeds = 2,
            .placements = {"plain", "pre", "rezero"},
            .text = text},
           {"no-residual"}}};
}

void expect_outside(const std::vector<Quick>& figures) {
  for (const auto& [figure, options, bugs] : figures) {
    for (const std::string& bug : bugs) {
      FigureOptions broken = options;
      broken.bug = &find_silent_bug(bug);
      EXPECT_EQ(run_figure(figure, broken).verdict(), Verdict::kOutside) << figure << ", " << bug;
    }
  }
}

TEST(StackFigures, SeeBugs) {
  expect_outside(untrained());
}

TEST(StackFigures, SeeBugsAfterTraining) {
  ADDNORM_LONG_TEST();
  expect_outside(trained());
}

TEST(StackFigures, OfFurtherSeedsAreInside) {
  for (auto& [figure, options, bugs] : untrained()) {
    for (int i = 1; i <= further_seeds(); ++i) {
      options.seed = 1000 * i;
      const FigureResult result = run_figure(figure, options);
      EXPECT_THAT(denied(result), IsEmpty()) << figure << ", seed " << options.seed;
      EXPECT_NE(result.verdict(), Verdict::kNotApplicable) << figure << ", seed " << options.seed;
    }
  }
}

TEST(StackFigures, AreInsideAfterTraining) {
  ADDNORM_LONG_TEST();
  for (auto& [figure, options, bugs] : trained()) {
    options.seed = 1000;
    const FigureResult result = run_figure(figure, options);
    EXPECT_THAT(denied(result), IsEmpty()) << figure;
    EXPECT_NE(result.verdict(), Verdict::kNotApplicable) << figure;
  }
}

TEST(StackFigures, JudgeNothingThatTheyCannot) {
  for (auto& [figure, options, bugs] : untrained()) {
    if (options.layers.size() == 1) options.layers = {1};
    options.seeds = 1;
    EXPECT_THAT(denied(run_figure(figure, options)), IsEmpty())
        << figure << " of one layer and seed";
  }
  EXPECT_EQ(run_figure("variance", {.layers = {96}, .width = 16, .seeds = 4}).verdict(),
            Verdict::kNotApplicable);
}

TEST(StackFigures, GiveTheSameBitsTwice) {
  const FigureOptions options{.layers = {4}, .width = 32};
  const FigureResult first = run_figure("gradient-flow", options);
  const FigureResult second = run_figure("gradient-flow", options);
  ASSERT_FALSE(first.panels[0].measured.empty());
  ASSERT_EQ(first.panels[0].measured.size(), second.panels[0].measured.size());
  for (std::size_t i = 0; i < first.panels[0].measured.size(); ++i) {
    EXPECT_FALSE(first.panels[0].measured[i].y.empty());
    EXPECT_EQ(first.panels[0].measured[i].y, second.panels[0].measured[i].y);
  }
}

}  // namespace
}  // namespace addnorm::lab
