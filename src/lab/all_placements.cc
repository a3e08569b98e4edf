#include <algorithm>

#include "lab/figures.h"
#include "lab/stack_sample.h"
#include "lab/training.h"

namespace addnorm::lab {
namespace {

constexpr double kStreamFactor = 1.3;
/// The allowed factor for the gradient. In a post-norm stack all later norms divide the first
/// layers' gradient.
constexpr double kGradientFactor = 2;
/// The number of drawn stacks for each trained one; drawing is cheap.
constexpr std::size_t kDraws = 8;
constexpr std::size_t kTrainedSteps = 150;
constexpr std::size_t kTrainedWarmUp = 75;
constexpr double kTrainedLearningRate = 2e-3;

/// Returns one value of a curve, at the placement's position.
Series point_of(const Series& curve, std::size_t at, double place) {
  Series point{curve.name, {place}, {curve.y.at(at)}, {curve.low.at(at)}, {curve.high.at(at)}, {}};
  if (!curve.error.empty()) point.error = {curve.error[at]};
  return point;
}

struct TrainedPanels {
  Panel stream, gradient, loss;

  explicit TrainedPanels(const FigureOptions& options) {
    const Axis rows{.label = msg("placement"), .names = options.placements};
    stream = {
        .title = msg("The stream after {} layers, before training", options.layers[0]),
        .x = rows,
        .y = {msg("root mean square; 1 before the first layer"), AxisScale::kLog},
        .caption = msg(
            "Above 1 the layers enlarge the stream, below 1 they shrink it. At 1 each layer ends "
            "with a norm, or its branches start at 0. For each seed 8 stacks are drawn; Admin's "
            "skips are not yet profiled.")};
    gradient = {
        .title = msg("The gradient that reaches the first layer, before training"),
        .x = rows,
        .y = {msg("root mean square; 1 where it starts"), AxisScale::kLog},
        .caption = msg("The gradient starts after the last layer or, where there is a final norm, "
                       "after that norm, which divides it by the size of the stream.")};
    loss = {
        .title = msg("Loss after {} steps", kTrainedSteps),
        .x = rows,
        .y = {msg("nats per byte, on validation text")},
        .caption = msg(
            "With PyTorch's initial weights and a learning rate of {}, warmed up over {} steps.",
            kTrainedLearningRate, kTrainedWarmUp)};
  }
};

/// Adds the panels of one placement before training.
void add_sample(const std::string& name, double place, const FigureOptions& options,
                TrainedPanels& panels, std::vector<Check>& checks) {
  FigureOptions draws = options;
  draws.seeds *= kDraws;
  const StackSample sample(wide_stack(parse_placements(name, options.layers[0]), options.width),
                           draws);
  auto add = [&](Panel& panel, Quantity quantity, std::size_t at, double factor, const char* what) {
    panel.measured.push_back(point_of(sample.measured(quantity, name), at, place));
    panel.predicted.push_back(point_of(sample.predicted(quantity, name, factor), at, place));
    checks.push_back(check_theory(msg("{}: {} matches mean-field theory", name, what),
                                  "docs/theory.md", sample, quantity, panel.measured.back(),
                                  panel.predicted.back()));
  };
  add(panels.stream, Quantity::kStreamRms, sample.layers(), kStreamFactor,
      msg("the stream after the last layer"));
  add(panels.gradient, Quantity::kGradientRms, 0, kGradientFactor,
      msg("the gradient at the first layer"));
}

/// Adds the panel of all placements after training.
void add_losses(const FigureOptions& options, Panel& panel, std::vector<Check>& checks) {
  std::vector<TrainingCurve> curves;
  for (const std::string& placement : options.placements) {
    curves.push_back({placement,
                      {static_cast<double>(curves.size())},
                      {{.placement = placement,
                        .layers = options.layers[0],
                        .width = options.width,
                        .steps = kTrainedSteps,
                        .learning_rate = {kTrainedLearningRate, kTrainedWarmUp}}}});
  }
  const TrainedCurves trained(curves, options);
  panel.measured = trained.losses();
  panel.predicted = {trained.unigram_curve()};
  auto claim = [&](const char* placement, const char* text, const char* source) {
    const auto at = std::ranges::find(options.placements, placement) - options.placements.begin();
    return TrainedCurves::Claim{text, source, placement, static_cast<double>(at)};
  };
  checks.push_back(trained.fails(
      claim("plain", msg("plain does not train, because its signal vanishes"), "docs/theory.md")));
  checks.push_back(trained.trains(claim("pre", msg("pre trains"), "Xiong et al. 2020")));
  checks.push_back(
      trained.trains(claim("rezero", msg("rezero trains"), "Bachlechner et al. 2020")));
  checks.push_back(
      trained.trains(claim("scaled-branch", msg("scaled-branch trains"), "Noci et al. 2022")));
}

}  // namespace

FigureResult all_placements(const FigureOptions& options) {
  FigureResult result;
  TrainedPanels panels(options);
  for (std::size_t i = 0; i < options.placements.size(); ++i) {
    add_sample(options.placements[i], static_cast<double>(i), options, panels, result.checks);
  }
  add_losses(options, panels.loss, result.checks);
  result.panels = {panels.stream, panels.gradient, panels.loss};
  return result;
}

}  // namespace addnorm::lab
