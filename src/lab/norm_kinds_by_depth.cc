#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lab/figures.h"
#include "lab/stack_sample.h"

namespace addnorm::lab {
namespace {

/// What a mean over seeds may differ from theory by.
constexpr double kFactor = 1.25;

/// How the gradient grows on its way to the first layer, as docs/theory.md derives it.
struct Law {
  const char* text;
  double least, most;  ///< of what check_law measures
};
constexpr Law kPowerLaw{"a power of depth", 0.75, 1.4};
constexpr Law kStretched{"the exponential of about √depth", 1.5, 2.5};

constexpr NormKind kKinds[] = {NormKind::kLayer, NormKind::kRms, NormKind::kDyT, NormKind::kDerf};

/// Without a final norm, so that the gradient behind the last layer is that of the loss.
theory::WideStack pre_norm_stack(NormKind norm, std::size_t layers, std::size_t width) {
  theory::WideStack stack = wide_stack(parse_placements("pre", layers), width);
  stack.norm.kind = norm;
  stack.final_norm = FinalNorm::kNo;
  return stack;
}

/// E[g²] where the first layer reads, over that behind the last one.
double gradient_growth(const Specimen& specimen) {
  const std::size_t layers = specimen.down_gradient.size();
  const auto rms = [&](std::size_t place) {
    return probe::stream_entry(specimen.profile, place, layers).grad_rms;
  };
  return std::pow(rms(0) / rms(layers), 2);
}
double gradient_growth(const theory::StackMoments& theory) {
  const std::size_t layers = theory.down_gradient.size();
  return theory.stream(0).gradient.power / theory.stream(layers).gradient.power;
}

/// The slope of ln y over ln x from the middle to the last depth, over that from the first to the
/// middle. A power has 1; exp(√x) has √b where each of both spans is b times as deep at its end.
Check check_law(NormKind kind, const Series& curve, std::size_t seeds) {
  constexpr double kLeastSpan = 3;
  constexpr std::size_t kLeastSeeds = 4;
  const Law& law = squashes(kind) ? kStretched : kPowerLaw;
  Check check{.claim = fmt::format("{}: the gradient grows as {}", curve.name, law.text),
              .source = "docs/theory.md, after arXiv 2604.11890",
              .low = law.least,
              .high = law.most,
              .unmet = "there are no three depths, each three times the one before"};
  const std::vector<double>& x = curve.x;
  const double first = x.front(), last = x.back();
  const auto distance = [&](double at) { return std::abs(std::log(at * at / (first * last))); };
  const auto middle = std::ranges::min_element(x, {}, distance) - x.begin();
  const auto slope = [&](std::size_t from, std::size_t to) {
    return std::log(curve.y[to] / curve.y[from]) / std::log(x[to] / x[from]);
  };
  const auto m = static_cast<std::size_t>(middle);
  if (x[m] < kLeastSpan * first || last < kLeastSpan * x[m]) return check;
  check.measured = slope(m, x.size() - 1) / slope(0, m);
  check.unmet = seeds < kLeastSeeds ? "there are fewer than four seeds" : "";
  return check;
}

/// The same curve over √layers, in which exp(√layers) is a straight line.
Series over_root(Series curve) {
  for (double& x : curve.x) x = std::sqrt(x);
  return curve;
}

struct Panels {
  Panel depth{.title = "The gradient of the first layer, by depth",
              .x = {"layers", AxisScale::kLog},
              .y = {"over that behind the last layer", AxisScale::kLog},
              .caption =
                  "Here a power of depth is a straight line: that of the norms which divide "
                  "by the size of a stream that grows."};
  Panel root{.title = "The same over the root of depth",
             .x = {"√layers"},
             .y = {"over that behind the last layer", AxisScale::kLog},
             .caption =
                 "Here the exponential of √depth is a straight line. DyT and Derf divide by "
                 "nothing: of a stream as large as √depth, that part of the features passes "
                 "a gradient which is not squashed yet, about 1/√depth."};
};

}  // namespace

FigureResult norm_kinds_by_depth(const FigureOptions& options) {
  Panels panels;
  FigureResult result;
  const std::vector<double> depths(options.layers.begin(), options.layers.end());
  for (const NormKind kind : kKinds) {
    const std::string name(title_of(kind));
    std::vector<std::vector<double>> measured(options.seeds);
    std::vector<double> predicted;
    std::string unmet;
    for (const std::size_t layers : options.layers) {
      const StackSample sample(pre_norm_stack(kind, layers, options.width), options);
      for (std::size_t s = 0; s < options.seeds; ++s) {
        measured[s].push_back(gradient_growth(sample.specimens()[s]));
      }
      predicted.push_back(std::sqrt(gradient_growth(sample.theory())));
      unmet = sample.unmet(Quantity::kGradientRms, Reach::kEveryLayer);
    }
    const Series curve = rms_curve(name, depths, measured);
    const Series theory = within_factor(name, depths, predicted, kFactor);
    Check check = check_mean(
        fmt::format("{}: the gradient is as mean-field theory says, at every depth", name),
        "docs/theory.md", curve, theory);
    if (!unmet.empty()) check.unmet = unmet;
    result.checks.push_back(std::move(check));
    result.checks.push_back(check_law(kind, curve, options.seeds));
    panels.depth.measured.push_back(curve);
    panels.depth.predicted.push_back(theory);
    panels.root.measured.push_back(over_root(curve));
    panels.root.predicted.push_back(over_root(theory));
  }
  result.panels = {panels.depth, panels.root};
  return result;
}

}  // namespace addnorm::lab
