#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "addnorm/torch_generator.h"
#include "base/parallel.h"
#include "lab/bare_stream.h"
#include "lab/figures.h"

namespace addnorm::lab {
namespace {

constexpr double kRevivedFactor = 1.25;
constexpr std::size_t kRevivedTokens = 8;

/// Returns E[f²] of each sublayer's output before the first step: its two weights start with this
/// gain.
std::vector<double> branch_powers(const std::vector<BlockPlacement>& placements) {
  std::vector<double> powers;
  for (std::size_t l = 0; l < placements.size(); ++l) {
    const Depth depth{l + 1, placements.size()};
    const auto add = [&](const Placement& placement) {
      powers.push_back(std::pow(placement.initial_gain.value(depth), 4));
    };
    add(placements[l].attention);
    if (placements[l].attention.sublayers == Sublayers::kInTurn) add(placements[l].feed_forward);
  }
  return powers;
}

double mean_square(std::span<const double> values) {
  double sum = 0;
  for (const double v : values) sum += v * v;
  return sum / static_cast<double>(values.size());
}

/// Returns E[dx²] divided by that of the gradient at the end.
double gradient_square(const std::vector<BlockPlacement>& placements, const FigureOptions& options,
                       std::uint64_t seed) {
  const StackPlan plan = bare_plan(placements, options.width, options.bug);
  BareStream stream(plan);
  TorchGenerator generator(seed);
  const auto drawn = [&](double power) {
    Matrix<double> rows(kRevivedTokens, options.width);
    generator.fill_normal(rows.flat(), 0, std::sqrt(power));
    return rows;
  };
  std::vector<Matrix<double>> branches;
  for (const double power : branch_powers(plan.placements)) branches.push_back(drawn(power));
  stream.forward(drawn(1), branches);
  const Matrix<double> d_end = drawn(1);
  return mean_square(stream.backward(d_end).flat()) / mean_square(d_end.flat());
}

/// The powers that norms divide by fluctuate, so ln g² has a variance v of up to 8·|ln g|/d. This
/// enlarges the mean of g² by the factor exp(v/2). If the factor is large, there is no prediction.
Series agreeing(const std::string& name, const std::vector<double>& depths,
                const std::vector<double>& gradient, std::size_t width) {
  constexpr double kMostVariance = 0.6;
  Series curve = within_factor(name, depths, gradient, kRevivedFactor);
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const double variance = 8 * std::abs(std::log(gradient[i])) / static_cast<double>(width);
    if (variance > kMostVariance) {
      curve.low[i] = curve.high[i] = std::numeric_limits<double>::quiet_NaN();
    }
  }
  return curve;
}

Check check_gradient(const Message& claim, const Series& measured, const Series& predicted) {
  const bool is_judged =
      std::ranges::any_of(predicted.low, [](double low) { return !std::isnan(low); });
  if (is_judged) return check_mean(claim, "docs/theory.md", measured, predicted);
  return {.claim = claim,
          .source = "docs/theory.md",
          .unmet = predicted.y.front() == 0 ? msg("no gradient passes")
                                            : msg("the stacks are too deep for their width")};
}

/// The literature's statement about a placement's curve, in numbers.
struct Claim {
  std::string_view placement;
  const char* text;
  double power;  ///< the gradient is multiplied by this power of the number of sublayers
  double least_layers;
  double low, high;
};
constexpr double kAnything = std::numeric_limits<double>::infinity();
constexpr Claim kClaims[] = {
    {"post", msg("less than 0.01 of the gradient is left"), 0, 24, 0, 0.01},
    {"deepnorm", msg("at least 0.9 of the gradient remains"), 0, 6, 0.9, kAnything},
    {"keel", msg("at least 0.9 of the gradient remains"), 0, 6, 0.9, kAnything},
    {"residual-dual", msg("the gradient falls as 1/√(number of sublayers)"), 0.5, 6, 0.9, 1.1},
    {"pre", msg("the gradient falls as 1/√(number of sublayers)"), 0.5, 6, 0.9, 1.1},
    {"siamese", msg("the gradient falls about as 1/√(number of sublayers)"), 0.5, 6, 0.9, 1.5}};

Check check_claim(const Claim& claim, const Series& gradient, std::size_t width) {
  constexpr std::size_t kLeastWidth = 64;
  Check check{
      .claim = msg("{}: {}, from {} layers on", claim.placement, claim.text, claim.least_layers),
      .source = msg("after Wang et al. 2022; Xie et al. 2023; arXiv 2601.19895"),
      .low = claim.low,
      .high = claim.high,
      .unmet = msg("there are too few layers")};
  for (std::size_t i = 0; i < gradient.x.size(); ++i) {
    if (gradient.x[i] < claim.least_layers) continue;
    check.measured = gradient.y[i] * std::pow(2 * gradient.x[i], claim.power);
    check.unmet = {};
    if (check.verdict() == Verdict::kOutside) break;
  }
  if (width < kLeastWidth) check.unmet = msg("the stack is narrower than 64");
  return check;
}

}  // namespace

FigureResult post_norm_revived(const FigureOptions& options) {
  Panel panel{
      .title = msg("The gradient along the skip connections"),
      .x = {msg("layers"), AxisScale::kLog},
      .y = {msg("gradient of x, relative to that at the end"), AxisScale::kLog, 1e-3},
      .caption =
          msg("In post-norm, each sublayer divides it by √2, and its curve soon leaves the chart. "
              "Other placements make the skip larger or keep a second lane without norms.")};
  FigureResult result;
  const std::vector<double> depths(options.layers.begin(), options.layers.end());
  for (const std::string& name : options.placements) {
    const Message claim = msg("{}: the gradient matches theory", name);
    if (!theory::covers_stream(parse_placements(name, options.layers[0]))) {
      result.checks.push_back(
          {.claim = claim,
           .source = "docs/theory.md",
           .unmet =
               msg("the theory covers neither gates nor lanes that are parts of the features")});
      continue;
    }
    std::vector<std::vector<double>> squares(options.seeds, std::vector<double>(depths.size()));
    std::vector<double> predicted;
    for (std::size_t i = 0; i < depths.size(); ++i) {
      const std::vector<BlockPlacement> placements = parse_placements(name, options.layers[i]);
      parallel_jobs(options.seeds, [&](std::size_t s) {
        squares[s][i] = gradient_square(placements, options, options.seed + s);
      });
      const auto mixing = theory::depth_mixing({.placements = placements,
                                                .d_model = options.width,
                                                .branch_power = branch_powers(placements)});
      predicted.push_back(std::abs(mixing.back()[0]));
    }
    panel.measured.push_back(rms_curve(name, depths, squares));
    panel.predicted.push_back(agreeing(name, depths, predicted, options.width));
    result.checks.push_back(check_gradient(claim, panel.measured.back(), panel.predicted.back()));
    for (const Claim& c : kClaims) {
      if (c.placement == name)
        result.checks.push_back(check_claim(c, panel.measured.back(), options.width));
    }
  }
  if (!panel.measured.empty()) result.panels = {panel};
  return result;
}

}  // namespace addnorm::lab
