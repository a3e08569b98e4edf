#include "lab/figures.h"
#include "lab/stack_sample.h"

namespace addnorm::lab {
namespace {

/// The tolerance of a cosine, ±0.06.
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
      .title = msg("Token similarity where attention averages"),
      .x = {msg("layer")},
      .y = {.label = msg("mean cosine of two tokens"), .bounds = {{-1, 1}}},
      .caption = msg("0: tokens have nothing in common; 1: all tokens point the same way, and no "
                     "later layer can tell them apart. Queries are 0, as the theory assumes.")};
  Panel chosen{.title = msg("Token similarity where attention selects"),
               .x = {msg("layer")},
               .y = {.label = msg("mean cosine of two tokens"), .bounds = {{-1, 1}}},
               .caption = msg(
                   "Queries are drawn like all other weights. The theory's averages no longer hold "
                   "exactly.")};
  FigureResult result;
  for (const std::string& name : options.placements) {
    theory::WideStack stack = wide_stack(parse_placements(name, options.layers[0]), options.width);
    const StackSample sample(stack, options);
    result.checks.push_back(
        add_curves(uniform, sample, Quantity::kTokenCosine, name, kCosineFactor));
    stack.queries = theory::Queries::kDrawn;
    chosen.measured.push_back(StackSample(stack, options).measured(Quantity::kTokenCosine, name));
    if (name == "plain") {
      result.checks.push_back(
          collapses(msg("plain: without a skip, a single average makes all tokens alike"),
                    "docs/theory.md", uniform.measured.back(), 1));
      result.checks.push_back(collapses(
          msg("plain: where attention selects, three layers make all tokens nearly alike"),
          msg("after Dong et al. 2021"), chosen.measured.back(), 3));
    } else if (name == "scaled-branch") {
      result.checks.push_back({.claim = msg("scaled-branch: 1/√L keeps tokens apart at any depth"),
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
