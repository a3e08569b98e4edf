#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "addnorm/nn/placement.h"
#include "lab/figure.h"
#include "support/figure_verdicts.h"
#include "support/long_tests.h"

namespace addnorm::lab {
namespace {

using testing::denied;
using testing::further_seeds;
using ::testing::IsEmpty;
using testing::run_figure;

std::vector<std::string> all_placements() {
  std::vector<std::string> names;
  for (const Placement& placement : placements()) names.emplace_back(placement.name);
  for (const Mixture& mixture : mixtures()) names.emplace_back(mixture.name);
  return names;
}

/// A figure of the stream alone at the smallest useful size, and bugs that it must detect.
struct StreamFigure {
  std::string_view name;
  FigureOptions options;
  std::vector<std::string> bugs;
};

std::vector<StreamFigure> stream_figures() {
  return {
      {"depth-mixing",
       {.layers = {6}},
       {"transposed-carry", "lanes-folded", "write-sigma", "residual-missing", "residual-twice",
        "norm-over-stream", "scale-lost", "one-plus-gamma"}},
      {"lanes", {.layers = {24}}, {"transposed-carry", "lanes-folded", "sinkhorn-rows-only"}},
      {"composite-gain",
       {.layers = {24}},
       {"transposed-carry", "lanes-folded", "sinkhorn-rows-only"}},
      {"post-norm-revived",
       {.layers = {6, 24}, .width = 256},
       {"lanes-folded", "no-residual", "scale-lost", "norm-over-stream", "final-norm-missing"}}};
}

TEST(StreamFigures, SeeBugs) {
  for (auto& [name, options, bugs] : stream_figures()) {
    for (const std::string& bug : bugs) {
      options.bug = &find_silent_bug(bug);
      EXPECT_EQ(run_figure(name, options).verdict(), Verdict::kOutside) << name << ", " << bug;
    }
  }
}

TEST(StreamFigures, OfFurtherSeedsAreInside) {
  for (auto& [name, options, bugs] : stream_figures()) {
    for (int i = 1; i <= further_seeds(); ++i) {
      options.seed = 1000 * i;
      EXPECT_THAT(denied(run_figure(name, options)), IsEmpty())
          << name << ", seed " << options.seed;
    }
  }
}

TEST(StreamFigures, KnowTheStreamOfEveryPlacement) {
  const FigureResult mixing =
      run_figure("depth-mixing", {.layers = {8}, .placements = all_placements()});
  EXPECT_THAT(denied(mixing), IsEmpty());
  std::vector<std::string> not_judged;
  for (const Check& check : mixing.checks) {
    if (!check.unmet.empty()) not_judged.push_back(check.claim.values.at(0).id);
  }
  EXPECT_THAT(not_judged, ::testing::ElementsAre("highway", "frac"));
  for (const char* figure : {"lanes", "composite-gain"}) {
    EXPECT_THAT(denied(run_figure(figure, {.layers = {8}, .placements = all_placements()})),
                IsEmpty());
  }
}

TEST(StreamFigures, JudgeNothingThatTheyCannot) {
  for (auto& [name, options, bugs] : stream_figures()) {
    options.layers =
        options.layers.size() > 1 ? std::vector<std::size_t>{1, 2} : std::vector<std::size_t>{1};
    if (find_figure(name).defaults().seeds > 0) options.seeds = 1;
    if (options.width > 0) options.width = 16;
    EXPECT_THAT(denied(run_figure(name, options)), IsEmpty()) << name << " of one layer and seed";
    options.placements = {"highway"};
    EXPECT_EQ(run_figure(name, options).verdict(), Verdict::kNotApplicable) << name;
  }
}

}  // namespace
}  // namespace addnorm::lab
