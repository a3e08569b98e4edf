#include <algorithm>
#include <cmath>
#include <functional>

#include "addnorm/torch_generator.h"
#include "lab/figures.h"
#include "lab/norm_sample.h"
#include "theory/norm_law.h"

namespace addnorm::lab {
namespace {

constexpr const char* kLayerNormSource = "Ba et al. 2016; docs/theory.md";
/// The error of an output in float32 that docs/numerics.md promises.
constexpr double kLayerNormRounding = 2e-6;
constexpr theory::Moments kBefore{5, 100};

/// One token for each seed.
struct Tokens {
  Matrix<float> x, y;
};
Tokens draw_tokens(const StackPlan& plan, const FigureOptions& options) {
  Tokens tokens{.x = Matrix<float>(options.seeds, options.width)};
  for (std::size_t s = 0; s < options.seeds; ++s) {
    TorchGenerator generator(options.seed + s);
    generator.fill_normal(tokens.x.view().row(s), kBefore.mean, std::sqrt(kBefore.variance));
  }
  tokens.y = sample_norm(plan, {tokens.x}).y;
  return tokens;
}

/// Returns the tolerance of a count among n draws whose probability is `share`. A count exceeds it
/// once in 134,000 times by Bernstein's inequality, exp(−t²/2(v + t/3)) for each side. Normalized
/// values have a fixed mean and deviation, so their counts vary less.
double count_tolerance(double share, double n) {
  constexpr double kLog = 12.5;
  return kLog / 3 + std::sqrt(kLog * kLog / 9 + 2 * kLog * n * share * (1 - share));
}

struct Distribution {
  theory::Moments moments;
  /// probability of values between these standard deviations
  std::function<double(double low, double high)> share;
};

/// A histogram from −2.5 to 2.5 standard deviations, and the expected one.
Panel density(Message title, Message caption, std::span<const float> values,
              const Distribution& distribution) {
  constexpr int kBins = 20;
  constexpr double kReach = 2.5;
  constexpr double kStep = 2 * kReach / kBins;
  const double center = distribution.moments.mean;
  const double variance = distribution.moments.variance;
  const double sigma = std::sqrt(variance);
  const double n = static_cast<double>(values.size());
  std::vector<double> x, shares, expected, tolerance;
  for (int i = 0; i < kBins; ++i) {
    const double low = -kReach + i * kStep;
    const auto count = std::ranges::count_if(values, [&](float v) {
      const double z = (v - center) / sigma;
      return low <= z && z < low + kStep;
    });
    const double share = distribution.share(low, low + kStep);
    const double unit = 1 / (kStep * sigma);  // a density is a share per unit
    x.push_back(center + (low + kStep / 2) * sigma);
    shares.push_back(static_cast<double>(count) / n * unit);
    expected.push_back(share * unit);
    tolerance.push_back(count_tolerance(share, n) / n * unit);
  }
  Series predicted = within(msg("features"), x, expected, tolerance);
  for (double& low : predicted.low) low = std::max(low, 0.0);
  return {.title = std::move(title),
          .x = {msg("value of a feature")},
          .y = {msg("density")},
          .caption = std::move(caption),
          .measured = {{msg("features"), x, shares}},
          .predicted = {predicted}};
}

void add_densities(FigureResult& result, const Tokens& tokens) {
  result.panels.push_back(density(msg("Features before"),
                                  msg("Drawn from N(5, 10²); the line is its density."),
                                  tokens.x.flat(), {kBefore, theory::normal_share}));
  auto after = [d = tokens.y.cols()](double low, double high) {
    return theory::normalized_share(d, low, high);
  };
  result.panels.push_back(density(
      msg("Features after"),
      msg("Mean 0 and standard deviation 1: a norm moves and rescales each token. The line is "
          "the exact density; with more features it approaches the normal density."),
      tokens.y.flat(), {{0, 1}, after}));
  const char* claims[] = {msg("Before the norm, the counts follow N(5, 10²)"),
                          msg("After the norm, the counts follow (1 − z²/(d − 1))^((d − 4)/2)")};
  for (std::size_t i = 0; i < std::size(claims); ++i) {
    const Panel& panel = result.panels[i];
    result.checks.push_back(
        check_curve(claims[i], kLayerNormSource, panel.measured[0], panel.predicted[0]));
  }
}

/// The outputs of one token over its inputs.
void add_one_token(FigureResult& result, const Tokens& tokens) {
  const auto x = tokens.x.view().row(0);
  const auto y = tokens.y.view().row(0);
  const double divide_by = theory::divisor({}, deviation(x));
  std::vector<std::pair<double, double>> points;
  for (std::size_t i = 0; i < x.size(); ++i) points.emplace_back(x[i], y[i]);
  std::ranges::sort(points);
  std::vector<double> before, after, expected;
  std::size_t out_of_order = 0;
  for (const auto& [a, b] : points) {
    if (!after.empty() && !(b >= after.back())) ++out_of_order;
    before.push_back(a);
    after.push_back(b);
    expected.push_back((a - mean(x)) / divide_by);
  }
  const std::vector<double> tolerance(before.size(), kLayerNormRounding);
  const Panel panel{
      .title = msg("One token, feature by feature"),
      .x = {msg("before")},
      .y = {msg("after")},
      .caption = msg("All features of a token lie on one straight line, so their order and the "
                     "ratios of their distances stay the same."),
      .measured = {{msg("features"), before, after}},
      .predicted = {within(msg("features"), before, expected, tolerance)}};
  result.checks.push_back(check_curve(msg("Every feature is (x − μ)/√(σ² + ε)"), kLayerNormSource,
                                      panel.measured[0], panel.predicted[0]));
  result.checks.push_back({.claim = msg("The order of the features is unchanged"),
                           .source = kLayerNormSource,
                           .measured = static_cast<double>(out_of_order)});
  result.panels.push_back(panel);
}

void add_moments(FigureResult& result, const Tokens& tokens) {
  double farthest_mean = 0, farthest_variance = 0;
  auto keep_larger = [](double& largest, double value) {
    if (!(std::abs(value) <= largest)) largest = std::abs(value);
  };
  for (std::size_t r = 0; r < tokens.x.rows(); ++r) {
    const auto y = tokens.y.view().row(r);
    const double want = theory::output_deviation({}, deviation(tokens.x.view().row(r)));
    keep_larger(farthest_mean, mean(y));
    keep_larger(farthest_variance, covariance(y, y) - want * want);
  }
  result.checks.push_back({.claim = msg("After the norm, every token has mean 0"),
                           .source = kLayerNormSource,
                           .measured = farthest_mean,
                           .high = kLayerNormRounding});
  result.checks.push_back({.claim = msg("… and variance σ²/(σ² + ε), up to the error given here"),
                           .source = kLayerNormSource,
                           .measured = farthest_variance,
                           .high = 2 * kLayerNormRounding});
}

/// The largest difference between LayerNorm(a·x + b) and LayerNorm(x) in one token, for each a.
struct Rescaled {
  std::vector<double> a, measured, low, high;
};

Rescaled rescale(const StackPlan& plan, const FigureOptions& options) {
  Rescaled result;
  Matrix<float> x(1, options.width);
  Matrix<float> rescaled(1, options.width);
  TorchGenerator generator(options.seed);
  generator.fill_normal(x.flat(), kBefore.mean, std::sqrt(kBefore.variance));
  const Matrix<float> plain = sample_norm(plan, {x}).y;
  const double sigma = deviation(x.flat());
  const auto [least, most] = std::ranges::minmax(x.flat());
  const double reach = std::max(most - mean(x.flat()), mean(x.flat()) - least);
  for (int exponent = -5; exponent <= 3; ++exponent) {
    const double a = std::pow(10, exponent);
    const double b = 20 * a;
    double largest = 0, largest_input = 0;
    for (std::size_t i = 0; i < x.cols(); ++i) {
      rescaled(0, i) = static_cast<float>(a * x(0, i) + b);
      largest_input = std::max(largest_input, double{std::abs(rescaled(0, i))});
    }
    const Matrix<float> y = sample_norm(plan, {rescaled}).y;
    for (std::size_t i = 0; i < x.cols(); ++i) {
      const double change = std::abs(double{y(0, i)} - plain(0, i));
      if (!(change <= largest)) largest = change;
    }
    const double expected =
        reach * std::abs(1 / theory::divisor({}, sigma) - a / theory::divisor({}, a * sigma));
    // The rounding of a·x + b changes a value, the mean and the deviation.
    const double tolerance = 2 * kLayerNormRounding + 3 * largest_input * kHalfUlp / (a * sigma);
    result.a.push_back(a);
    result.measured.push_back(largest);
    result.low.push_back(std::max(0.0, expected - tolerance));
    result.high.push_back(expected + tolerance);
  }
  return result;
}

void add_invariance(FigureResult& result, const StackPlan& plan, const FigureOptions& options) {
  const Rescaled rescaled = rescale(plan, options);
  const Panel panel{
      .title = msg("LayerNorm of a·x + b"),
      .x = {msg("a"), AxisScale::kLog},
      .y = {msg("largest change of a feature"), AxisScale::kLog},
      .caption = msg("b is 20·a. Scale and shift change the output only by rounding, until a is "
                     "so small that ε = 1e-5 is no longer small beside the variance."),
      .measured = {{"change", rescaled.a, rescaled.measured}},
      .predicted = {{"change", rescaled.a, {}, rescaled.low, rescaled.high}}};
  result.checks.push_back(
      check_curve(msg("LayerNorm(a·x + b) is LayerNorm(x), except for ε and rounding"),
                  kLayerNormSource, panel.measured[0], panel.predicted[0]));
  result.panels.push_back(panel);
}

}  // namespace

FigureResult layernorm(const FigureOptions& options) {
  const StackPlan plan = post_norm_plan({}, options.width, options.bug);
  const Tokens tokens = draw_tokens(plan, options);
  FigureResult result;
  add_densities(result, tokens);
  add_one_token(result, tokens);
  add_moments(result, tokens);
  add_invariance(result, plan, options);
  return result;
}

}  // namespace addnorm::lab
