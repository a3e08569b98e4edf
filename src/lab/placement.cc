#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lab/figures.h"
#include "lab/stack_sample.h"

namespace addnorm {
namespace {

/// What a mean over seeds may differ from theory by; at width 64 it does by a tenth.
constexpr double kFactor = 1.25;

/// The last value of a curve by layer, for each depth.
void append_last(Curve& by_depth, const Curve& by_layer, double depth) {
  by_depth.x.push_back(depth);
  by_depth.y.push_back(by_layer.y.back());
  by_depth.low.push_back(by_layer.low.back());
  by_depth.high.push_back(by_layer.high.back());
}

/// One placement, at every depth.
struct ByDepth {
  Curve last_measured, last_predicted;      ///< the last layer's weight gradient
  std::vector<std::vector<double>> ratios;  ///< of each seed, at each depth: last over first
  Curve layers_measured, layers_predicted;  ///< of the deepest stack, by layer
};

ByDepth by_depth(const std::string& name, const FigureOptions& options) {
  ByDepth all{.last_measured = {name},
              .last_predicted = {name},
              .ratios = std::vector<std::vector<double>>(options.seeds)};
  for (const std::size_t layers : options.layers) {
    const StackSample sample(wide_stack(parse_placements(name, layers), options.width), options);
    all.layers_measured = sample.measured(Quantity::kWeightGradient, name);
    all.layers_predicted = sample.predicted(Quantity::kWeightGradient, name, kFactor);
    append_last(all.last_measured, all.layers_measured, static_cast<double>(layers));
    append_last(all.last_predicted, all.layers_predicted, static_cast<double>(layers));
    const std::vector<double> ratios = sample.last_over_first();
    for (std::size_t s = 0; s < ratios.size(); ++s) all.ratios[s].push_back(ratios[s]);
  }
  return all;
}

/// depth^exponent through the curve's middle, and what is within kFactor of it.
Curve power_law(const Curve& curve, double exponent) {
  double log_scale = 0;
  for (std::size_t i = 0; i < curve.x.size(); ++i) {
    log_scale += std::log(curve.y[i]) - exponent * std::log(curve.x[i]);
  }
  log_scale /= static_cast<double>(curve.x.size());
  std::vector<double> y;
  for (const double depth : curve.x) {
    y.push_back(std::exp(log_scale + exponent * std::log(depth)));
  }
  return within_factor(curve.name, curve.x, y, kFactor);
}

/// What theorem 1 of Xiong et al. 2020 and Wang et al. 2022 say of single placements.
void add_claims(const std::string& name, const ByDepth& all, const Curve& ratio,
                std::vector<Check>& checks) {
  constexpr const char* kTheorem1 = "Xiong et al. 2020, theorem 1";
  const Curve& last = all.last_measured;
  if (name == "post") {
    checks.push_back(check_mean("post: the last layer's gradient is the same at every depth",
                                kTheorem1, last, power_law(last, 0)));
  } else if (name == "pre") {
    checks.push_back(check_mean("pre: the last layer's gradient falls with depth as 1/√L",
                                kTheorem1, last, power_law(last, -0.5)));
  } else if (name == "deepnorm") {
    const std::vector<double> one(ratio.x.size(), 1), tenth(ratio.x.size(), 0.1);
    checks.push_back(check_mean("deepnorm: first and last layer have gradients of one size",
                                "Wang et al. 2022", ratio, within(name, ratio.x, one, tenth)));
  }
}

}  // namespace

FigureResult placement(const FigureOptions& options) {
  Panel last{.title = "The last layer's gradient, by depth",
             .x = {"layers", Spacing::kLog},
             .y = {"norm of the gradient of the feed-forward's second weight", Spacing::kLog},
             .caption =
                 "Post-norm gives the last layer a gradient that no depth makes smaller, so "
                 "that its first steps are large: the reason for warm-up. Pre-norm's final "
                 "norm divides by a stream that grows with depth."};
  Panel ratio{.title = "Last layer's gradient over the first's, by depth",
              .x = {"layers", Spacing::kLog},
              .y = {"ratio", Spacing::kLog},
              .caption =
                  "At 1 all layers learn at one rate. Pre-norm's first layers have the "
                  "larger gradients."};
  Panel layers{.title = fmt::format("Gradient by layer, of {} layers", options.layers.back()),
               .x = {"layer"},
               .y = {"norm of the gradient of the feed-forward's second weight", Spacing::kLog}};
  FigureResult result;
  for (const std::string& name : options.placements) {
    const ByDepth all = by_depth(name, options);
    last.measured.push_back(all.last_measured);
    last.predicted.push_back(all.last_predicted);
    ratio.measured.push_back(mean_curve(name, all.last_measured.x, all.ratios));
    layers.measured.push_back(all.layers_measured);
    layers.predicted.push_back(all.layers_predicted);
    result.checks.push_back(check_mean(
        fmt::format("{}: the last layer's gradient is within a factor of {} of mean-field theory",
                    name, kFactor),
        "docs/theory.md", all.last_measured, all.last_predicted));
    add_claims(name, all, ratio.measured.back(), result.checks);
  }
  result.panels = {last, ratio, layers};
  return result;
}

}  // namespace addnorm
