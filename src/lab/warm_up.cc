#include "lab/figures.h"
#include "lab/training.h"

namespace addnorm::lab {
namespace {

constexpr std::size_t kTrainingSteps = 300;
constexpr std::size_t kWarmUpSteps = 150;
/// The learning rate with the lowest loss for 12 layers of pre-norm without warm-up, among eight
/// rates from 0.001 to 0.012. docs/theory.md lists the losses, and the rates at which post-norm
/// trains.
constexpr double kWarmUpLearningRate = 6e-3;

std::vector<TrainingCurve> warm_up_plan(const FigureOptions& options) {
  std::vector<TrainingCurve> curves;
  for (const std::string& placement : options.placements) {
    for (const std::size_t warm_up : {std::size_t{0}, kWarmUpSteps}) {
      curves.push_back(at_depths(placement + (warm_up > 0 ? ", warm-up" : ""),
                                 {.placement = placement,
                                  .width = options.width,
                                  .steps = kTrainingSteps,
                                  .learning_rate = {kWarmUpLearningRate, warm_up}},
                                 options.layers));
    }
  }
  return curves;
}

}  // namespace

FigureResult warm_up(const FigureOptions& options) {
  constexpr const char* kSource = "Xiong et al. 2020";
  constexpr double kDepth = 12;
  const Message unmet = options.width == 32 ? "" : msg("the claim is for width 32");
  const TrainedCurves trained(warm_up_plan(options), options);
  FigureResult result;
  result.panels = {
      {.title = msg("With and without warm-up"),
       .x = {msg("layers"), AxisScale::kLog},
       .y = {msg("loss after training, nats per byte")},
       .caption = msg("Validation loss after {} steps at a learning rate of {}, constant from "
                      "the first step or warmed up over {} steps. A model on the line "
                      "“byte frequencies alone” has learned nothing about the order of bytes.",
                      kTrainingSteps, kWarmUpLearningRate, kWarmUpSteps),
       .measured = trained.losses(),
       .predicted = {trained.unigram_curve()}}};
  result.checks = {
      trained.fails({msg("a post-norm model of 12 layers does not train without warm-up"), kSource,
                     "post", kDepth, unmet}),
      trained.trains({msg("a post-norm model of 12 layers trains with warm-up"), kSource,
                      "post, warm-up", kDepth, unmet}),
      trained.trains({msg("a pre-norm model of 12 layers trains without warm-up"), kSource, "pre",
                      kDepth, unmet}),
  };
  return result;
}

}  // namespace addnorm::lab
