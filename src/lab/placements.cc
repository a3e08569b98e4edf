#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "lab/figures.h"
#include "lab/stack_sample.h"
#include "lab/training.h"

namespace addnorm {
namespace {

constexpr double kFactor = 1.3;
/// Post-norm's first layers, which lie behind tokens that have become alike, fluctuate most.
constexpr double kGradientFactor = 2;
constexpr std::size_t kSteps = 150;
constexpr std::size_t kWarmUp = 75;
constexpr double kLearningRate = 2e-3;

/// One point for each placement: the last value of a curve over its first, or the other way round.
void append(Curve& by_placement, double x, double y, double low, double high, double error) {
  by_placement.x.push_back(x);
  by_placement.y.push_back(y);
  by_placement.low.push_back(low);
  by_placement.high.push_back(high);
  by_placement.error.push_back(error);
}

std::vector<TrainingCurve> plan(const FigureOptions& options) {
  TrainingCurve curve{"loss", {}, {}};
  for (const std::string& placement : options.placements) {
    curve.x.push_back(static_cast<double>(curve.x.size()));
    curve.jobs.push_back({.placement = placement,
                          .layers = options.layers[0],
                          .width = options.width,
                          .steps = kSteps,
                          .learning_rate = {kLearningRate, kWarmUp}});
  }
  return {curve};
}

}  // namespace

FigureResult placements(const FigureOptions& options) {
  const PanelAxis rows{.label = "placement", .names = options.placements};
  Panel stream{.title = "The stream behind the last layer, before training",
               .x = rows,
               .y = {"root mean square; 1 at the first layer", Spacing::kLog},
               .caption = ""};
  Panel gradient{.title = "The first layer's gradient over the one behind the last",
                 .x = rows,
                 .y = {"ratio of root mean squares", Spacing::kLog},
                 .caption = ""};
  FigureResult result;
  result.panels = {stream, gradient};
  return result;
}

}  // namespace addnorm
