#include <algorithm>
#include <cmath>
#include <limits>

#include "lab/carry_product.h"
#include "lab/figures.h"

namespace addnorm::lab {
namespace {

/// ln|A·v| grows by (n − 2)·σ²/2 on average, for every v and A = I + σ·N(0, 1).
Check check_growth(const std::string& name, const CarryDraws& gains, double spread) {
  double sum = 0;
  for (const std::vector<double>& of_seed : gains.measured) sum += std::log(of_seed.back());
  const double lanes = static_cast<double>(gains.products[0].lanes);
  const double growth = (lanes - 2) * spread * spread / 2 * gains.sublayers.back();
  Check check{.claim = msg("{}: the gain, a geometric mean over seeds, grows at least as "
                           "fast as the gain of one vector",
                           name),
              .source = "docs/theory.md",
              .measured = std::exp(sum / static_cast<double>(gains.measured.size())),
              .low = std::exp(growth),
              .high = std::numeric_limits<double>::infinity()};
  if (gains.measured.size() < kLeastSeeds) check.unmet = too_few_seeds();
  return check;
}

/// Checks the gain farthest from 1, at any depth.
Check check_bounded(const std::string& name, const CarryDraws& gains, CarryKind kind) {
  const bool is_exact = kind == CarryKind::kIdentity;
  const double tolerance = is_exact ? 1e-9 : 0.02;
  Check check{.claim = is_exact ? msg("{}: the gain is 1 at every depth", name)
                                : msg("{}: the gain is 1 ± 0.02 at every depth", name),
              .source = "Xie et al. 2025",
              .measured = 1,
              .low = 1 - tolerance,
              .high = 1 + tolerance};
  for (const std::vector<double>& of_seed : gains.measured) {
    for (const double g : of_seed) {
      if (std::abs(g - 1) > std::abs(check.measured - 1)) check.measured = g;
    }
  }
  return check;
}

}  // namespace

FigureResult composite_gain(const FigureOptions& options) {
  Panel panel{
      .title = msg("Gain of the product of all A"),
      .x = {msg("sublayers")},
      .y = {msg("largest sum of a row or column"), AxisScale::kLog},
      .caption = msg("A stream or a gradient can grow by up to this factor. Unconstrained numbers "
                     "multiply like random matrices.")};
  FigureResult result;
  for (const std::string& name : options.placements) {
    const std::vector<BlockPlacement> placements = parse_placements(name, options.layers[0]);
    const Message claim = msg("{}: the gain equals that of its matrices A", name);
    const Message unmet = has_no_product(placements);
    if (!unmet.empty()) {
      result.checks.push_back({.claim = claim, .source = "docs/theory.md", .unmet = unmet});
      continue;
    }
    const DrawnStack drawn = drawn_stack(placements);
    const CarryDraws gains = carry_draws(drawn, options, largest_sum);
    panel.measured.push_back(mean_curve(name, gains.sublayers, gains.measured));
    const Series mean = mean_curve(name, gains.sublayers, gains.predicted);
    panel.predicted.push_back(within_factor(name, mean.x, mean.y, 1.02));
    result.checks.push_back(
        check_curve(claim, "docs/theory.md", panel.measured.back(), panel.predicted.back()));
    const CarryKind kind = carry_kind(placements);
    if (kind == CarryKind::kNumbers) {
      result.checks.push_back(check_growth(name, gains, drawn.spread));
    } else if (kind != CarryKind::kOther) {
      result.checks.push_back(check_bounded(name, gains, kind));
    }
  }
  if (!panel.measured.empty()) result.panels = {panel};
  return result;
}

}  // namespace addnorm::lab
