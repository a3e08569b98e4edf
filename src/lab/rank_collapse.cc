#include "lab/figures.h"
#include "lab/stack_sample.h"

namespace addnorm::lab {
namespace {

/// 1 + the tolerance of a cosine: StackSample::predicted() subtracts the 1.
constexpr double kCosineFactor = 1.06;

Check collapses(const char* claim, const char* source, const Series& cosine, std::size_t layer) {
  Check check{.claim = claim, .source = source, .low = 0.95, .high = 1.000001};
  if (layer < cosine.y.size()) {
    check.measured = cosine.y[layer];
  } else {
    check.unmet = msg("there are fewer than {} layers", layer);
  }
  return check;
}

}  // namespace

FigureResult rank_collapse(const FigureOptions& options) {
  Panel uniform{
      .title = msg("Token similarity with uniform attention"),
      .x = {msg("layer")},
      .y = {.label = msg("mean cosine of two tokens"), .bounds = {{-1, 1}}},
      .caption =
          msg("0: two tokens are orthogonal on average; 1: all tokens have the same direction. The "
              "query weights are 0, as the theory assumes, so attention is uniform.")};
  Panel chosen{.title = msg("Token similarity with random query weights"),
               .x = {msg("layer")},
               .y = {.label = msg("mean cosine of two tokens"), .bounds = {{-1, 1}}},
               .caption = msg("The query weights are random, like all other weights. Attention is "
                              "then not uniform, so the theory has no exact prediction.")};
  FigureResult result;
  for (const std::string& name : options.placements) {
    theory::WideStack stack = wide_stack(parse_placements(name, options.layers[0]), options.width);
    const StackSample sample(stack, options);
    result.checks.push_back(
        add_curves(uniform, sample, Quantity::kTokenCosine, name, kCosineFactor));
    stack.queries = theory::Queries::kDrawn;
    chosen.measured.push_back(StackSample(stack, options).measured(Quantity::kTokenCosine, name));
    if (name == "plain") {
      result.checks.push_back(collapses(msg("plain: without a skip, one layer of uniform attention "
                                            "gives all tokens the same direction"),
                                        "docs/theory.md", uniform.measured.back(), 1));
      result.checks.push_back(collapses(msg("plain: with random query weights, three layers give "
                                            "all tokens nearly the same direction"),
                                        msg("after Dong et al. 2021"), chosen.measured.back(), 3));
    } else if (name == "scaled-branch") {
      result.checks.push_back(
          {.claim = msg(
               "scaled-branch: a gain of 1/√L keeps the last layer's token similarity below 0.5"),
           .source = "Noci et al. 2022",
           .measured = uniform.measured.back().y.back(),
           .low = 0,
           .high = 0.5});
    }
  }
  result.panels = {uniform, chosen};
  return result;
}

}  // namespace addnorm::lab
