#include <algorithm>
#include <cmath>

#include "addnorm/torch_generator.h"
#include "lab/carry_product.h"
#include "lab/figures.h"
#include "theory/depth_mixing.h"

namespace addnorm::lab {
namespace {

constexpr double kLeast = 0.01;  // the error of 20 of Sinkhorn's iterations

/// Returns Π‖A − 11ᵀ/n‖₂ up to each sublayer: for doubly stochastic A, the second singular values.
std::vector<double> bounds(const CarryProducts& products) {
  std::vector<double> all;
  double bound = 1;
  for (std::vector<double> a : products.carries) {
    for (double& entry : a) entry -= 1 / static_cast<double>(products.lanes);
    bound *= theory::spectral_norm(a, products.lanes);
    all.push_back(bound);
  }
  return all;
}

Series agreeing(const std::string& name, const CarryDraws& differences) {
  const Series mean = mean_curve(name, differences.sublayers, differences.predicted);
  std::vector<double> tolerance;
  for (const double y : mean.y) tolerance.push_back(0.03 * y + kLeast);
  return within(name, mean.x, mean.y, tolerance);
}

/// Checks the largest ratio of a difference to its bound.
Check check_bound(const std::string& name, const CarryDraws& differences) {
  Check check{
      .claim = msg("{}: differences shrink at least as fast as the product of all σ₂(A)", name),
      .source = "docs/theory.md",
      .high = 1.02};
  for (std::size_t i = 0; i < differences.measured.size(); ++i) {
    const std::vector<double> bound = bounds(differences.products[i]);
    for (std::size_t l = 0; l < bound.size(); ++l) {
      check.measured = std::max(check.measured, differences.measured[i][l] / (bound[l] + kLeast));
    }
  }
  return check;
}

/// Returns the largest gradient of A's logits.
double carry_gradient(const std::vector<BlockPlacement>& placements, double spread,
                      const FigureOptions& options) {
  constexpr std::size_t kWidth = 64;
  BareStream stream(bare_plan(placements, kWidth, options.bug),
                    {.spread = spread, .seed = options.seed});
  TorchGenerator generator(options.seed);
  const auto drawn = [&] {
    Matrix<double> row(1, kWidth);
    generator.fill_normal(row.flat());
    return row;
  };
  std::vector<Matrix<double>> branches;
  for (std::size_t l = 0; l < stream.sublayers(); ++l) branches.push_back(drawn());
  stream.forward(drawn(), branches);
  stream.backward(drawn());
  double largest = 0;
  for (const NamedParameter<double>& entry : stream.parameters()) {
    if (!entry.name.ends_with("carry.base")) continue;
    for (const double g : entry.parameter->gradient.flat()) {
      largest = std::max(largest, std::abs(g));
    }
  }
  return largest;
}

std::vector<BlockPlacement> all_alike(std::vector<BlockPlacement> placements) {
  const auto zero = [](const Place&, std::size_t, std::size_t) { return 0.0; };
  for (BlockPlacement& block : placements) {
    for (Placement* placement : {&block.attention, &block.feed_forward}) {
      placement->lanes.read.base = placement->lanes.write.base = zero;
    }
  }
  return placements;
}

Check check_trap(const std::string& name, const DrawnStack& drawn, const FigureOptions& options) {
  return {.claim = msg("{}: if all lanes are read and written alike, A gets no gradient, "
                       "relative to that with random numbers",
                       name),
          .source = "docs/arrangements.md",
          .measured = carry_gradient(all_alike(drawn.placements), 0, options) /
                      carry_gradient(drawn.placements, drawn.spread, options),
          .high = 1e-3};
}

}  // namespace

FigureResult lanes(const FigureOptions& options) {
  const Axis sublayers{msg("sublayers")};
  Panel start{.title = msg("At the start"),
              .x = sublayers,
              .y = {msg("remaining difference"), AxisScale::kLinear, 0},
              .caption = msg("1: lanes differ as at the start. 0: all lanes are equal.")};
  Panel drawn{.title = msg("With random numbers"),
              .x = sublayers,
              .y = {msg("remaining difference"), AxisScale::kLog, 1e-3},
              .caption = msg(
                  "A product of many doubly stochastic matrices makes all lanes equal. A = I keeps "
                  "them different; so do unconstrained numbers, but they amplify.")};
  FigureResult result;
  for (const std::string& name : options.placements) {
    const std::vector<BlockPlacement> placements = parse_placements(name, options.layers[0]);
    const auto add = [&](Panel& panel, const char* when, const DrawnStack& stack) {
      CarryDraws differences = carry_draws(stack, options, difference_left);
      panel.measured.push_back(mean_curve(name, differences.sublayers, differences.measured));
      panel.predicted.push_back(agreeing(name, differences));
      result.checks.push_back(
          check_curve(msg("{}: lanes differ as theory predicts, {}", name, when), "docs/theory.md",
                      panel.measured.back(), panel.predicted.back()));
      return differences;
    };
    const Message unmet = has_no_product(placements);
    if (!unmet.empty()) {
      result.checks.push_back({.claim = msg("{}: lanes differ as theory predicts", name),
                               .source = "docs/theory.md",
                               .unmet = unmet});
      continue;
    }
    const DrawnStack trained = drawn_stack(placements);
    add(start, msg("at the start"), {placements});
    const CarryDraws differences = add(drawn, msg("with random numbers"), trained);
    if (carry_kind(placements) != CarryKind::kDoublyStochastic) continue;
    result.checks.push_back(check_bound(name, differences));
    result.checks.push_back(check_trap(name, trained, options));
  }
  if (!start.measured.empty()) result.panels = {start, drawn};
  return result;
}

}  // namespace addnorm::lab
