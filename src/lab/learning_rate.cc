#include "lab/figures.h"
#include "lab/training.h"

namespace addnorm::lab {
namespace {

constexpr std::size_t kRateSteps = 150;
constexpr double kRates[] = {5e-4, 2e-3, 8e-3, 32e-3, 128e-3};

std::vector<TrainingCurve> plan(const FigureOptions& options, Initialization initialization) {
  std::vector<TrainingCurve> curves;
  for (const std::string& placement : options.placements) {
    TrainingCurve& curve = curves.emplace_back(TrainingCurve{placement, {}, {}});
    for (const double rate : kRates) {
      curve.x.push_back(rate);
      curve.jobs.push_back({.placement = placement,
                            .layers = options.layers[0],
                            .width = options.width,
                            .steps = kRateSteps,
                            .learning_rate = {rate, 0},
                            .initialization = initialization});
    }
  }
  return curves;
}

Panel panel_of(const char* title, const TrainedCurves& trained) {
  return {.title = title,
          .x = {msg("learning rate"), AxisScale::kLog},
          .y = {msg("loss after training, nats per byte")},
          .caption = msg("Validation loss after {} steps of AdamW without warm-up.", kRateSteps),
          .measured = trained.losses(),
          .predicted = {trained.unigram_curve()}};
}

}  // namespace

FigureResult learning_rate(const FigureOptions& options) {
  FigureResult result;
  const TrainedCurves small(plan(options, Initialization::kTorch), options);
  const TrainedCurves large(plan(options, Initialization::kXavier), options);
  result.panels = {panel_of(msg("Small initial weights (PyTorch's)"), small),
                   panel_of(msg("Larger initial weights (Xavier's)"), large)};
  constexpr const char* kSource = msg("after Bjorck et al. 2018, on BatchNorm");
  const bool is_as_claimed = options.layers[0] == 8 && options.width == 32;
  const Message unmet = is_as_claimed ? "" : msg("the claim is for 8 layers of width 32");
  result.checks = {
      small.trains({msg("small weights: with a norm, a learning rate of 0.008 trains"), kSource,
                    "pre", 8e-3, unmet}),
      small.diverges({msg("small weights: without a norm, a learning rate of 0.128 diverges"),
                      kSource, "none", 128e-3, unmet}),
      small.stays_finite({msg("small weights: with a norm, a learning rate of 0.128 is too high to "
                              "learn, but does not diverge"),
                          kSource, "pre", 128e-3, unmet}),
      large.trains({msg("larger weights: with a norm, a learning rate of 0.008 trains"), kSource,
                    "pre", 8e-3, unmet}),
      large.fails(
          {msg("larger weights: without a norm, a learning rate of 0.0005 is already too high"),
           kSource, "none", 5e-4, unmet}),
  };
  return result;
}

}  // namespace addnorm::lab
