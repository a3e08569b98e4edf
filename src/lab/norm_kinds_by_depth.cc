#include <algorithm>
#include <cmath>

#include "lab/figures.h"
#include "lab/stack_sample.h"

namespace addnorm::lab {
namespace {

/// The allowed factor between a mean over seeds and theory.
constexpr double kKindsFactor = 1.25;

constexpr NormKind kKinds[] = {NormKind::kLayer, NormKind::kRms, NormKind::kDyT, NormKind::kDerf};

/// A stack without a final norm, so the gradient after the last layer is that of the loss.
theory::WideStack pre_norm_stack(NormKind norm, std::size_t layers, std::size_t width) {
  theory::WideStack stack = wide_stack(parse_placements("pre", layers), width);
  stack.norm.kind = norm;
  stack.final_norm = FinalNorm::kNo;
  return stack;
}

/// Returns E[g²] at the first layer's input divided by that after the last layer.
double gradient_growth(const StackProfile& profile) {
  const std::size_t layers = profile.down_gradient.size();
  const auto rms = [&](std::size_t place) {
    return probe::stream_entry(profile.entries, place, layers).grad_rms;
  };
  return std::pow(rms(0) / rms(layers), 2);
}
double gradient_growth(const theory::StackMoments& theory) {
  const std::size_t layers = theory.down_gradient.size();
  return theory.stream(0).gradient.power / theory.stream(layers).gradient.power;
}

/// Returns the index of the depth that is farthest from both the first and the last depth.
std::size_t middle_of(const std::vector<double>& depths) {
  const double square = depths.front() * depths.back();
  const auto distance = [&](double depth) { return std::abs(std::log(depth * depth / square)); };
  return static_cast<std::size_t>(std::ranges::min_element(depths, {}, distance) - depths.begin());
}

/// Returns the ratio of two slopes of ln g over ln L: from the middle depth to the last, and from
/// the first to the middle. `squares` are g² of each seed.
Series growth_of_slope(const std::string& name, const std::vector<double>& depths,
                       const std::vector<std::vector<double>>& squares) {
  const std::size_t middle = middle_of(depths), last = depths.size() - 1;
  std::vector<std::vector<double>> slopes;
  for (const std::vector<double>& of_seed : squares) {
    const auto slope = [&](std::size_t from, std::size_t to) {
      return std::log(of_seed[to] / of_seed[from]) / std::log(depths[to] / depths[from]) / 2;
    };
    slopes.push_back({slope(0, middle), slope(middle, last)});
  }
  const Series mean = mean_curve(name, {0, 1}, slopes);
  Series growth{.name = name, .x = {0}, .y = {mean.y[1] / mean.y[0]}};
  std::vector<std::vector<double>> rests;  // differences between seeds, to first order
  rests.reserve(slopes.size());
  for (const auto& of_seed : slopes) rests.push_back({of_seed[1] - growth.y[0] * of_seed[0]});
  growth.error = {mean_curve(name, {0}, rests).error[0] / std::abs(mean.y[0])};
  return growth;
}

/// Checks the growth law. On logarithmic axes, a power of L has a constant slope, and the slope of
/// exp(k·√L) grows as √L.
Check check_law(NormKind kind, const std::vector<double>& depths,
                const std::vector<std::vector<double>>& squares) {
  constexpr double kLeastSpan = 3;
  constexpr double kTolerance = 0.5;
  const std::string name(title_of(kind));
  const double first = depths.front(), middle = depths[middle_of(depths)], last = depths.back();
  const double span = std::sqrt(last / first);  // of each half
  const double expected = squashes(kind) ? std::sqrt(span) : 1;
  const Message claim = msg(
      "{}: the gradient grows as {}: its slope over ln L changes by a factor of {:.2g} ± {}", name,
      squashes(kind) ? msg("an exponential of √L") : msg("a power of L"), expected, kTolerance);
  const char* source = "docs/theory.md; arXiv 2604.11890";
  if (middle < kLeastSpan * first || last < kLeastSpan * middle) {
    return {.claim = claim,
            .source = source,
            .unmet = msg("there are no three depths, each three times the one before")};
  }
  return check_mean(claim, source, growth_of_slope(name, depths, squares),
                    within(name, {0}, {expected}, {kTolerance}));
}

/// Returns the curve over √layers, where exp(√layers) is a straight line.
Series over_root(Series curve) {
  for (double& x : curve.x) x = std::sqrt(x);
  return curve;
}

struct KindsPanels {
  Panel depth{
      .title = msg("The gradient of the first layer, by depth"),
      .x = {msg("layers"), AxisScale::kLog},
      .y = {msg("relative to the gradient after the last layer"), AxisScale::kLog},
      .caption = msg("On these axes a power of depth is a straight line: norms that divide by the "
                     "size of a growing stream give one.")};
  Panel root{.title = msg("The same over the root of depth"),
             .x = {msg("√layers")},
             .y = {msg("relative to the gradient after the last layer"), AxisScale::kLog},
             .caption = msg(
                 "On these axes an exponential of √depth is a straight line. DyT and Derf do not "
                 "divide: in a stream as large as √depth, only features that are not yet squashed "
                 "pass a gradient, about 1/√depth of them.")};
};

}  // namespace

FigureResult norm_kinds_by_depth(const FigureOptions& options) {
  KindsPanels panels;
  FigureResult result;
  const std::vector<double> depths(options.layers.begin(), options.layers.end());
  for (const NormKind kind : kKinds) {
    const std::string name(title_of(kind));
    std::vector<std::vector<double>> measured(options.seeds);
    std::vector<double> predicted;
    Message unmet;
    for (const std::size_t layers : options.layers) {
      const StackSample sample(pre_norm_stack(kind, layers, options.width), options);
      for (std::size_t s = 0; s < options.seeds; ++s) {
        measured[s].push_back(gradient_growth(sample.profiles()[s]));
      }
      predicted.push_back(std::sqrt(gradient_growth(sample.theory())));
      unmet = sample.unmet(Quantity::kGradientRms, Reach::kEveryLayer);
    }
    const Series curve = rms_curve(name, depths, measured);
    const Series theory = within_factor(name, depths, predicted, kKindsFactor);
    Check check = check_mean(msg("{}: the gradient matches mean-field theory at every depth", name),
                             "docs/theory.md", curve, theory);
    Check law = check_law(kind, depths, measured);
    if (!unmet.empty()) check.unmet = law.unmet = unmet;
    result.checks.push_back(std::move(check));
    result.checks.push_back(std::move(law));
    panels.depth.measured.push_back(curve);
    panels.depth.predicted.push_back(theory);
    panels.root.measured.push_back(over_root(curve));
    panels.root.predicted.push_back(over_root(theory));
  }
  result.panels = {panels.depth, panels.root};
  return result;
}

}  // namespace addnorm::lab
