#include <fmt/format.h>

#include "lab/figures.h"
#include "lab/stack_sample.h"

namespace addnorm {
namespace {

/// What a mean over 8 draws of 12 layers may differ from theory by. Without a skip the weights of
/// all layers are multiplied, and with them their fluctuations.
constexpr double kFactor = 1.4;
constexpr double kWithoutSkip = 2.5;

struct Arrangement {
  std::string name;
  std::vector<BlockPlacement> placements;
  double factor;
};

/// Residual and norm, each there or not.
std::vector<Arrangement> arrangements(std::size_t layers) {
  Arrangement norm_alone{"norm alone", parse_placements("post", layers), kWithoutSkip};
  for (BlockPlacement& block : norm_alone.placements) {
    block.attention.skip = block.feed_forward.skip = find_placement("plain").skip;
  }
  return {{"neither", parse_placements("plain", layers), kWithoutSkip},
          norm_alone,
          {"residual alone", parse_placements("none", layers), kFactor},
          {"post-norm", parse_placements("post", layers), kFactor},
          {"pre-norm", parse_placements("pre", layers), kFactor}};
}

}  // namespace

FigureResult gradient_flow(const FigureOptions& options) {
  FigureResult result;
  Panel gradient{.title = "The gradient on its way back",
                 .x = {"layer"},
                 .y = {"root mean square", Spacing::kLog},
                 .caption =
                     "Of the loss's gradient with respect to what each layer reads; it is 1 "
                     "where it starts, behind the last layer."};
  Panel stream{.title = "The signal on its way forward",
               .x = {"layer"},
               .y = {"root mean square", Spacing::kLog},
               .caption = "Of what each layer reads; the last point is what the last one leaves."};
  for (const auto& [name, placements, factor] : arrangements(options.layers[0])) {
    const StackSample sample(wide_stack(placements, options.width), options);
    result.checks.push_back(add_curves(gradient, sample, Quantity::kGradientRms, name, factor));
    result.checks.push_back(add_curves(stream, sample, Quantity::kStreamRms, name, factor));
  }
  result.panels = {gradient, stream};
  return result;
}

}  // namespace addnorm
