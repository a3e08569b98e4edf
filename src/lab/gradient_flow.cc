#include "lab/figures.h"
#include "lab/stack_sample.h"

namespace addnorm::lab {
namespace {

constexpr double kFlowFactor = 1.4;

struct Arrangement {
  std::string name;
  std::vector<BlockPlacement> placements;
  const char* fate;  ///< of the gradient on the path to the first of 12 layers
  double least, most;
};

/// Returns the four combinations with and without residual and norm.
std::vector<Arrangement> arrangements(std::size_t layers) {
  Arrangement norm_alone{msg("norm alone"), parse_placements("post", layers), msg("keeps its size"),
                         0.05, 20};
  for (BlockPlacement& block : norm_alone.placements) {
    block.attention.skip = block.feed_forward.skip = find_placement("plain").skip;
  }
  return {{msg("neither"), parse_placements("plain", layers), msg("vanishes"), 0, 0.02},
          norm_alone,
          {msg("residual alone"), parse_placements("none", layers), msg("explodes"), 10, 1e30},
          {msg("post-norm"), parse_placements("post", layers), msg("keeps its size"), 0.05, 20},
          {msg("pre-norm"), parse_placements("pre", layers), msg("keeps its size"), 0.05, 20}};
}

Check check_fate(const Arrangement& a, const Series& gradient, std::size_t layers) {
  Check check{.claim = msg("{}: the gradient {} on its way to the first layer", a.name, a.fate),
              .source = msg("after Schoenholz et al. 2017"),
              .measured = gradient.y[0],
              .low = a.least,
              .high = a.most};
  if (layers != 12) check.unmet = msg("the limits apply to 12 layers");
  return check;
}

}  // namespace

FigureResult gradient_flow(const FigureOptions& options) {
  FigureResult result;
  Panel gradient{
      .title = msg("The gradient on its way back"),
      .x = {msg("layer")},
      .y = {msg("root mean square"), AxisScale::kLog},
      .caption = msg("The gradient of the loss with respect to each layer's input. It is 1 where "
                     "it starts: after the last layer, or after pre-norm's final norm, which "
                     "divides it by the size of the stream.")};
  Panel stream{
      .title = msg("The signal on its way forward"),
      .x = {msg("layer")},
      .y = {msg("root mean square"), AxisScale::kLog},
      .caption = msg("The input of each layer; the last point is the output of the last layer.")};
  for (const Arrangement& a : arrangements(options.layers[0])) {
    const StackSample sample(wide_stack(a.placements, options.width), options);
    result.checks.push_back(
        add_curves(gradient, sample, Quantity::kGradientRms, a.name, kFlowFactor));
    result.checks.push_back(add_curves(stream, sample, Quantity::kStreamRms, a.name, kFlowFactor));
    result.checks.push_back(check_fate(a, gradient.measured.back(), options.layers[0]));
  }
  result.panels = {gradient, stream};
  return result;
}

}  // namespace addnorm::lab
