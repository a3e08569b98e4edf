#include <cmath>

#include "lab/figures.h"
#include "lab/stack_sample.h"

namespace addnorm::lab {
namespace {

/// The allowed factor between a mean over seeds and theory; at width 64 the actual one is 1.1.
constexpr double kWeightGradientFactor = 1.25;

using Samples = std::vector<StackSample>;  // of one placement, by depth
using Draws = std::vector<std::vector<double>>;

std::vector<double> depths(const Samples& samples) {
  std::vector<double> x;
  for (const StackSample& sample : samples) x.push_back(static_cast<double>(sample.layers()));
  return x;
}

/// Returns a number of each seed's weight gradients, ‖∂loss/∂W‖² by layer, at each depth.
Draws draws(const Samples& samples, double (*value)(const std::vector<double>& squares)) {
  Draws all(samples[0].profiles().size());
  for (const StackSample& sample : samples) {
    for (std::size_t seed = 0; seed < all.size(); ++seed) {
      all[seed].push_back(value(sample.profiles()[seed].down_gradient));
    }
  }
  return all;
}
Series in_theory(const std::string& name, const Samples& samples,
                 double (*square)(const std::vector<double>& squares)) {
  std::vector<double> y;
  for (const StackSample& sample : samples) {
    y.push_back(std::sqrt(square(sample.theory().down_gradient)));
  }
  return within_factor(name, depths(samples), y, kWeightGradientFactor);
}

double first(const std::vector<double>& squares) {
  return squares.front();
}
double last(const std::vector<double>& squares) {
  return squares.back();
}
double last_over_first(const std::vector<double>& squares) {
  return squares.back() / squares.front();
}

/// √(mean of last²/mean of first²): in a mean of ratios the smallest first values would dominate.
Series ratio_of_means(const std::string& name, const Samples& samples) {
  const Series lasts = mean_curve(name, depths(samples), draws(samples, last));
  const Series firsts = mean_curve(name, depths(samples), draws(samples, first));
  Series ratio = rms_curve(name, depths(samples), draws(samples, last_over_first));
  for (std::size_t i = 0; i < ratio.x.size(); ++i) {
    ratio.y[i] = std::sqrt(lasts.y[i] / firsts.y[i]);
    ratio.error[i] =
        ratio.y[i] / 2 * std::hypot(lasts.error[i] / lasts.y[i], firsts.error[i] / firsts.y[i]);
  }
  return ratio;
}

/// Returns the slope of log y over log x, by least squares.
double log_slope(const std::vector<double>& x, const std::vector<double>& y) {
  const double n = static_cast<double>(x.size());
  double sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double lx = std::log(x[i]);
    const double ly = std::log(y[i]);
    sx += lx;
    sy += ly;
    sxx += lx * lx;
    sxy += lx * ly;
  }
  return (n * sxy - sx * sy) / (n * sxx - sx * sx);
}

/// Checks that the last layer's gradient grows with this power of depth.
Check check_power(const char* claim, const Samples& samples, double power) {
  constexpr double kTolerance = 0.15;
  constexpr double kLeastRange = 4;  // ratio of depths; a slope over a smaller range means little
  const std::vector<double> x = depths(samples);
  Draws slopes;
  for (const std::vector<double>& squares : draws(samples, last)) {
    slopes.push_back({log_slope(x, squares) / 2});
  }
  Check check =
      check_mean(claim, msg("after the bound of Xiong et al. 2020, theorem 1"),
                 mean_curve("slope", {0}, slopes), within("slope", {0}, {power}, {kTolerance}));
  if (x.back() / x.front() < kLeastRange)
    check.unmet = msg("the depths are too close to fit a slope");
  return check;
}

struct PrePostPanels {
  Panel last{
      .title = msg("The last layer's gradient, by depth"),
      .x = {msg("layers"), AxisScale::kLog},
      .y = {msg("norm of the gradient of the feed-forward's second weight"), AxisScale::kLog},
      .caption =
          msg("In post-norm, the last layer's gradient does not shrink with depth, so its first "
              "steps are large: the reason for warm-up. Pre-norm's final norm divides by a "
              "stream that grows with depth.")};
  Panel ratio{
      .title = msg("Last layer's gradient over the first's, by depth"),
      .x = {msg("layers"), AxisScale::kLog},
      .y = {msg("ratio"), AxisScale::kLog},
      .caption = msg("At 1, the first and the last layer have gradients of the same size. In "
                     "pre-norm, the first layers have larger gradients.")};
  Panel layers;

  explicit PrePostPanels(std::size_t deepest)
      : layers{
            .title = msg("Gradient by layer, of {} layers", deepest),
            .x = {msg("layer")},
            .y = {msg("norm of the gradient of the feed-forward's second weight"), AxisScale::kLog},
            .caption = msg("The gradient of each layer's weights at the first step.")} {}
};

void add_placement(const std::string& name, const Samples& samples, PrePostPanels& panels,
                   std::vector<Check>& checks) {
  panels.last.measured.push_back(rms_curve(name, depths(samples), draws(samples, last)));
  panels.last.predicted.push_back(in_theory(name, samples, last));
  panels.ratio.measured.push_back(ratio_of_means(name, samples));
  panels.ratio.predicted.push_back(in_theory(name, samples, last_over_first));
  const auto add = [&](const char* what, const Panel& panel, Reach reach) {
    checks.push_back(
        check_theory(msg("{}: {} matches mean-field theory at every depth", name, what),
                     "docs/theory.md", samples.back(), Quantity::kWeightGradient,
                     panel.measured.back(), panel.predicted.back(), reach));
  };
  add(msg("the last layer's gradient"), panels.last, Reach::kLastLayer);
  add(msg("its ratio to the first layer's gradient"), panels.ratio, Reach::kEveryLayer);
  checks.push_back(add_curves(panels.layers, samples.back(), Quantity::kWeightGradient, name,
                              kWeightGradientFactor));
  if (name == "post") {
    checks.push_back(check_power(
        msg("post: the last layer's gradient does not depend on depth, its exponent is 0 ± 0.15"),
        samples, 0));
  } else if (name == "pre") {
    checks.push_back(check_power(
        msg("pre: the last layer's gradient falls about as 1/√L, its exponent is −0.5 ± 0.15"),
        samples, -0.5));
  } else if (name == "deepnorm") {
    const Series& ratio = panels.ratio.measured.back();
    const std::vector<double> one(ratio.x.size(), 1), tenth(ratio.x.size(), 0.1);
    checks.push_back(
        check_mean(msg("deepnorm: the last layer's gradient is 0.9 to 1.1 times the first layer's"),
                   msg("after Wang et al. 2022"), ratio, within(name, ratio.x, one, tenth)));
  }
}

}  // namespace

FigureResult pre_and_post_norm(const FigureOptions& options) {
  PrePostPanels panels(options.layers.back());
  FigureResult result;
  for (const std::string& name : options.placements) {
    Samples samples;
    for (const std::size_t layers : options.layers) {
      samples.emplace_back(wide_stack(parse_placements(name, layers), options.width), options);
    }
    add_placement(name, samples, panels, result.checks);
  }
  result.panels = {panels.last, panels.ratio, panels.layers};
  return result;
}

}  // namespace addnorm::lab
