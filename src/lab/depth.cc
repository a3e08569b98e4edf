#include "lab/figures.h"
#include "lab/training.h"

namespace addnorm::lab {
namespace {

constexpr std::size_t kDepthSteps = 100;
constexpr std::size_t kDepthWarmUp = 20;
constexpr double kDepthLearningRate = 4e-3;

std::vector<TrainingCurve> depth_plan(const FigureOptions& options) {
  std::vector<TrainingCurve> curves;
  for (const std::string& placement : options.placements) {
    curves.push_back(at_depths(placement,
                               {.placement = placement,
                                .width = options.width,
                                .context = 16,
                                .steps = kDepthSteps,
                                .learning_rate = {kDepthLearningRate, kDepthWarmUp}},
                               options.layers));
  }
  return curves;
}

}  // namespace

FigureResult depth(const FigureOptions& options) {
  const TrainedCurves trained(depth_plan(options), options);
  FigureResult result;
  result.panels = {
      {.title = msg("The same number of steps at every depth"),
       .x = {msg("layers"), AxisScale::kLog},
       .y = {msg("loss after training, nats per byte")},
       .caption = msg(
           "Validation loss after {} steps at a learning rate of {}, warmed up over the first {}. "
           "With more steps, more of these stacks get below the loss of byte frequencies. Stacks "
           "whose branches change the skip little need few steps.",
           kDepthSteps, kDepthLearningRate, kDepthWarmUp),
       .measured = trained.losses(),
       .predicted = {trained.unigram_curve()}}};
  const Message unmet = options.width == 32 ? "" : msg("the claim is for width 32");
  for (const std::size_t layers : options.layers) {
    const double depth = static_cast<double>(layers);
    auto claim = [&](const char* curve, const Message& text, const char* source) {
      return TrainedCurves::Claim{text, source, curve, depth, unmet};
    };
    result.checks.push_back(trained.trains(
        claim("rezero", msg("rezero: {} layers train", layers), "Bachlechner et al. 2020")));
    result.checks.push_back(trained.trains(
        claim("scaled-branch", msg("scaled-branch: {} layers train", layers), "Noci et al. 2022")));
    if (layers >= 24) {
      result.checks.push_back(trained.fails(claim(
          "post", msg("post: {} layers do not train", layers), msg("after Wang et al. 2022"))));
    }
  }
  return result;
}

}  // namespace addnorm::lab
