#include "lab/figures.h"
#include "lab/stack_sample.h"

namespace addnorm::lab {
namespace {

constexpr double kVarianceFactor = 1.15;
/// A stream that grows beyond this is shown on a logarithmic scale.
constexpr double kSteep = 1000;

/// Returns the band from 1 + l/2 to 1 + 3l/2 for l = 1 … layers.
Series pre_norm_bounds(std::size_t layers) {
  Series bounds{msg("pre, bounds"), {}, {}};
  for (std::size_t l = 1; l <= layers; ++l) {
    const double depth = static_cast<double>(l);
    bounds.x.push_back(depth);
    bounds.low.push_back(1 + depth / 2);
    bounds.high.push_back(1 + 3 * depth / 2);
  }
  return bounds;
}

struct VariancePanels {
  Panel linear{.title = msg("The stream's variance, by layer"),
               .x = {msg("layer")},
               .y = {msg("mean square of each layer's input")},
               .caption = msg("Each branch adds its variance to that of the stream.")};
  Panel steep{
      .title = msg("The stream's variance without norms"),
      .x = {msg("layer")},
      .y = {msg("mean square of each layer's input"), AxisScale::kLog},
      .caption = msg("Without a norm, a branch is as large as the stream it reads, so each layer "
                     "multiplies the variance.")};
  Panel sums{
      .title = msg("What post-norm's second norm divides by"),
      .x = {msg("layer")},
      .y = {msg("mean square of x + F(x) in the feed-forward")},
      .caption = msg("The sum has variance 3/2 in every layer; after the norm it is 1 again, so "
                     "nothing grows with depth.")};
};

/// Adds the claims about single placements that go beyond mean-field theory.
void add_claims(const std::string& name, const StackSample& sample, VariancePanels& panels,
                std::vector<Check>& checks) {
  const Series stream = sample.measured(Quantity::kStreamPower, name);
  const double layers = static_cast<double>(sample.layers());
  if (name == "pre") {
    panels.linear.predicted.push_back(pre_norm_bounds(sample.layers()));
    panels.linear.caption = msg("{} {}", panels.linear.caption,
                                msg("The bounds are those of Xiong et al. for pre-norm."));
    checks.push_back(check_theory(msg("pre: the stream is between 1 + l/2 and 1 + 3l/2"),
                                  msg("Xiong et al. 2020, lemma 2"), sample, Quantity::kStreamPower,
                                  stream, panels.linear.predicted.back()));
  } else if (name == "reordered" || name == "sandwich") {
    const double sum = 1 + 2 * layers;
    checks.push_back(check_theory(
        msg("{}: each normalized branch adds 1: the stream ends within 3 % of 1 + 2L", name),
        "docs/theory.md", sample, Quantity::kStreamPower, stream,
        {name, {layers}, {sum}, {0.97 * sum}, {1.03 * sum}}));
  } else if (name == "post") {
    panels.sums.measured.push_back(sample.measured(Quantity::kSumPower, name));
    const Series& x = panels.sums.measured.back();
    panels.sums.predicted.push_back(
        within_factor(name, x.x, std::vector<double>(x.x.size(), 1.5), kVarianceFactor));
    checks.push_back(check_theory(msg("post: the sum before the second norm has variance 3/2"),
                                  msg("Xiong et al. 2020, lemma 2"), sample, Quantity::kSumPower, x,
                                  panels.sums.predicted.back()));
  }
}

}  // namespace

FigureResult variance(const FigureOptions& options) {
  VariancePanels panels;
  FigureResult result;
  for (const std::string& name : options.placements) {
    const StackSample sample(wide_stack(parse_placements(name, options.layers[0]), options.width),
                             options);
    const bool is_steep = sample.predicted(Quantity::kStreamPower, name, 1).y.back() > kSteep;
    result.checks.push_back(add_curves(is_steep ? panels.steep : panels.linear, sample,
                                       Quantity::kStreamPower, name, kVarianceFactor));
    add_claims(name, sample, panels, result.checks);
  }
  for (Panel* panel : {&panels.linear, &panels.sums, &panels.steep}) {
    if (!panel->measured.empty()) result.panels.push_back(*panel);
  }
  return result;
}

}  // namespace addnorm::lab
