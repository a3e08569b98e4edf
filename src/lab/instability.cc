#include <algorithm>
#include <array>
#include <cmath>

#include "addnorm/torch_generator.h"
#include "base/parallel.h"
#include "lab/figures.h"
#include "lab/norm_sample.h"
#include "theory/norm_law.h"

namespace addnorm::lab {
namespace {

constexpr const char* kInstabilitySource = "docs/theory.md";
constexpr std::size_t kFeatures = 5;
constexpr std::size_t kTokensPerSeed = 1000;  // for each seed
constexpr std::size_t kGradientTokens = 200;  // number of first tokens with a gradient
constexpr double kEpsilon = 1e-8;
constexpr double kFactors[] = {1, 3, 10, 30, 100, 300, 1000};

/// Several times float32's relative rounding error; a median is one of the values.
constexpr double kInstabilityRounding = 1e-5;

enum class Residual { kOn, kOff };

/// The quantities measured for one factor of F.
enum MedianOf { kStableCosine, kBranchCosine, kGrowth, kJacobian, kQuantities };

struct Draw {
  Matrix<float> x{kTokensPerSeed, kFeatures};
  Matrix<float> branch{kTokensPerSeed, kFeatures};
};
Draw draw(std::uint64_t seed) {
  Draw drawn;
  TorchGenerator generator(seed);
  generator.fill_uniform(drawn.x.flat(), -1, 1);
  generator.fill_uniform(drawn.branch.flat(), -1, 1);
  return drawn;
}

StackPlan plan_with(Residual residual, const SilentBug* bug) {
  StackPlan plan = post_norm_plan({.epsilon = kEpsilon}, kFeatures, bug);
  if (residual == Residual::kOff) {
    plan.placements[0].attention.skip = find_placement("plain").skip;
  }
  return plan;
}

Matrix<float> times(double factor, const Matrix<float>& values) {
  Matrix<float> product(values.rows(), values.cols());
  std::ranges::transform(values.flat(), product.data(),
                         [&](float v) { return static_cast<float>(factor) * v; });
  return product;
}

/// Returns the median; NaN if one value is NaN.
double median(std::vector<double> values) {
  const auto nan = std::ranges::find_if(values, [](double v) { return std::isnan(v); });
  if (nan != values.end()) return *nan;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Medians over tokens, for each factor.
using Curves = std::array<std::vector<double>, kQuantities>;

Curves measure(const StackPlan& plan, const Draw& drawn) {
  const NormSample stable = sample_norm(plan, {drawn.x, drawn.branch});
  const NormSample alone = sample_norm(plan_with(Residual::kOff, nullptr), {drawn.x, drawn.branch});
  auto divisor_of = [](const NormSample& sample, std::size_t token) {
    return deviation(sample.sum.view().row(token)) / deviation(sample.y.view().row(token));
  };
  Curves curves;
  for (const double factor : kFactors) {
    const Matrix<float> branch = times(factor, drawn.branch);
    const NormSample now = sample_norm(plan, {drawn.x, branch});
    std::array<std::vector<double>, kQuantities> tokens;
    for (std::size_t t = 0; t < kTokensPerSeed; ++t) {
      const auto y = now.y.view().row(t);
      tokens[kStableCosine].push_back(cosine(y, stable.y.view().row(t)));
      tokens[kBranchCosine].push_back(cosine(y, alone.y.view().row(t)));
      tokens[kGrowth].push_back(divisor_of(now, t) / divisor_of(stable, t));
    }
    tokens[kJacobian] = jacobian_norms(plan, drawn.x.view().block(0, 0, kGradientTokens, kFeatures),
                                       branch.view().block(0, 0, kGradientTokens, kFeatures));
    for (std::size_t q = 0; q < kQuantities; ++q) curves[q].push_back(median(tokens[q]));
  }
  return curves;
}

theory::SumMoments moments(Residual residual, std::span<const float> x, std::span<const float> f) {
  if (residual == Residual::kOff) return {.branch = covariance(f, f)};
  return {covariance(x, x), covariance(f, f), covariance(x, f)};
}

Curves predict(Residual residual, const Draw& drawn) {
  const NormOptions norm{.epsilon = kEpsilon};
  Curves curves;
  for (const double factor : kFactors) {
    std::array<std::vector<double>, kQuantities> tokens;
    for (std::size_t t = 0; t < kTokensPerSeed; ++t) {
      const theory::SumMoments sum =
          moments(residual, drawn.x.view().row(t), drawn.branch.view().row(t));
      const double sigma = std::sqrt(sum.variance(factor));
      tokens[kStableCosine].push_back(sum.cosine(1, factor));
      tokens[kBranchCosine].push_back(sum.branch_cosine(factor));
      tokens[kGrowth].push_back(theory::divisor(norm, sigma) /
                                theory::divisor(norm, std::sqrt(sum.variance(1))));
      if (t < kGradientTokens) {
        tokens[kJacobian].push_back(theory::jacobian_norm(kFeatures, sigma, kEpsilon));
      }
    }
    for (std::size_t q = 0; q < kQuantities; ++q) curves[q].push_back(median(tokens[q]));
  }
  return curves;
}

/// The medians of every seed.
struct Medians {
  std::vector<Curves> measured, predicted;
};

Series curve(const std::vector<Curves>& seeds, MedianOf quantity, const char* name) {
  return mean_curve(name, {std::begin(kFactors), std::end(kFactors)},
                    mapped(seeds, [&](const Curves& seed) { return seed[quantity]; }));
}

Medians run(Residual residual, const FigureOptions& options) {
  const StackPlan plan = plan_with(residual, options.bug);
  Medians medians{std::vector<Curves>(options.seeds), std::vector<Curves>(options.seeds)};
  parallel_jobs(options.seeds, [&](std::size_t s) {
    const Draw drawn = draw(options.seed + s);
    medians.measured[s] = measure(plan, drawn);
    medians.predicted[s] = predict(residual, drawn);
  });
  return medians;
}

struct QuantityText {
  MedianOf quantity;
  const char* title;
  const char* y;
  const char* caption;
  AxisScale scale;
  const char* claim_on;   ///< claim with the residual
  const char* claim_off;  ///< claim without it
};
constexpr QuantityText kTexts[] = {
    {kStableCosine, msg("Is the output unchanged?"), msg("cosine with the output for F × 1"),
     msg("1 means the same direction. Without a residual the norm removes the factor; with one, "
         "only F is scaled, so x̂ turns towards F."),
     AxisScale::kLinear, msg("x̂ turns away from the stable x̂ as the moments of x and F predict"),
     msg("x̂ equals the stable x̂ for every factor")},
    {kBranchCosine, msg("Does the output still contain x?"), msg("cosine with LayerNorm(F)"),
     msg("At 1 the output is that of F alone: x has become negligible or, without a residual, was "
         "never part of it."),
     AxisScale::kLinear, msg("x̂ turns towards LayerNorm(F) as the moments of x and F predict"),
     msg("x̂ equals LayerNorm(F)")},
    {kGrowth, msg("The deviation that the norm divides by"), msg("relative to F × 1"),
     msg("It grows in proportion to F, with a residual as soon as F outweighs x; this keeps the "
         "norm's output in range."),
     AxisScale::kLog, msg("σ grows as √(σx² + 2k·cov + k²·σF²)"), msg("σ grows as k")},
    {kJacobian, msg("The gradient through the norm"), msg("size of the derivative"),
     msg("It is divided by the same deviation: beside a large F, x gets a small gradient."),
     AxisScale::kLog, msg("the gradient through the norm is √(d − 2)/σ"),
     msg("the gradient through the norm is √(d − 2)/(k·σF)")},
};

void add_curves(FigureResult& result, Residual residual, const Medians& run) {
  const bool on = residual == Residual::kOn;
  const char* name = on ? msg("residual on") : msg("residual off");
  for (std::size_t i = 0; i < std::size(kTexts); ++i) {
    const QuantityText& text = kTexts[i];
    Panel& panel = result.panels[i];
    const Series line = curve(run.predicted, text.quantity, name);
    panel.measured.push_back(curve(run.measured, text.quantity, name));
    panel.predicted.push_back(within_factor(name, line.x, line.y, 1 + kInstabilityRounding));
    result.checks.push_back(check_curve(msg("{}: {}", name, on ? text.claim_on : text.claim_off),
                                        kInstabilitySource, panel.measured.back(),
                                        panel.predicted.back()));
  }
}

/// A median over uniform draws, with the given digits, and the standard deviation of medians over
/// one seed's tokens.
struct KnownMedian {
  MedianOf quantity;
  const char* claim;
  double value, half_digit, spread;
};
constexpr KnownMedian kKnown[] = {
    {kStableCosine, msg("F × 10: the median cosine with the stable x̂ is 0.81"), 0.81, 0.005,
     0.0075},
    {kBranchCosine, msg("F × 10: the median cosine with LayerNorm(F) is 0.996"), 0.996, 0.0005,
     0.00013},
    {kGrowth, msg("F × 10: the median deviation grows 7.1 times"), 7.1, 0.05, 0.085},
};

void add_known_medians(FigureResult& result, const Medians& run) {
  constexpr double kStandardErrors = 5;
  const auto at = std::ranges::find(kFactors, 10.0) - std::begin(kFactors);
  for (const KnownMedian& known : kKnown) {
    const double measured = curve(run.measured, known.quantity, "").y[static_cast<std::size_t>(at)];
    const double tolerance =
        known.half_digit +
        kStandardErrors * known.spread / std::sqrt(static_cast<double>(run.measured.size()));
    result.checks.push_back({.claim = known.claim,
                             .source = kInstabilitySource,
                             .measured = measured,
                             .low = known.value - tolerance,
                             .high = known.value + tolerance});
  }
}

}  // namespace

FigureResult instability(const FigureOptions& options) {
  FigureResult result;
  for (const QuantityText& text : kTexts) {
    result.panels.push_back({.title = text.title,
                             .x = {msg("factor of F"), AxisScale::kLog},
                             .y = {text.y, text.scale},
                             .caption = text.caption});
  }
  const Medians on = run(Residual::kOn, options);
  add_curves(result, Residual::kOn, on);
  add_curves(result, Residual::kOff, run(Residual::kOff, options));
  add_known_medians(result, on);
  return result;
}

}  // namespace addnorm::lab
