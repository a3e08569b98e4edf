#include <cmath>

#include "addnorm/nn/initialize.h"
#include "lab/figures.h"
#include "lab/norm_sample.h"
#include "theory/norm_law.h"

namespace addnorm::lab {
namespace {

constexpr const char* kPipelineSource = "Vaswani et al. 2017; Ba et al. 2016";
/// The error of an output in float32 that docs/numerics.md promises.
constexpr double kPipelineRounding = 2e-6;
/// Half the relative distance of float32 numbers.

/// Self-attention over 8 tokens with Xavier's weights, in its Add & Norm.
NormSample draw_sublayer(const FigureOptions& options, Matrix<float>& x) {
  TorchGenerator generator(options.seed);
  MultiHeadAttention<float> attention(options.width, 1);
  for (Linear<float>* linear :
       {&attention.query(), &attention.key(), &attention.value(), &attention.output()}) {
    initialize(*linear, Initialization::kXavier, generator);
  }
  x.resize(8, options.width);
  generator.fill_normal(x.flat());
  return sample_sublayer(post_norm_plan({}, options.width, options.bug), attention, x);
}

std::vector<double> first_token(const Matrix<float>& values) {
  const auto row = values.view().row(0);
  return {row.begin(), row.end()};
}

struct Step {
  const char *title, *caption;
  std::vector<double> measured;
  std::vector<double> predicted;  ///< empty: no prediction
  std::vector<double> tolerance;
};

Panel panel_of(const Step& step) {
  const std::vector<double> feature = count_up(step.measured.size());
  Panel panel{.title = step.title,
              .x = {msg("feature")},
              .y = {msg("value")},
              .caption = step.caption,
              .measured = {{msg("measured"), feature, step.measured}}};
  if (!step.predicted.empty()) {
    panel.predicted = {within(msg("measured"), feature, step.predicted, step.tolerance)};
  }
  return panel;
}

/// Returns x + F from the measured values, and its norm computed in float64.
std::vector<Step> steps(const NormSample& sample, const Matrix<float>& given) {
  const std::vector<double> x = first_token(sample.x);
  const std::vector<double> branch = first_token(sample.branch);
  const std::size_t d = x.size();
  std::vector<double> sum(d), half_ulps(d);
  theory::Moments moments;
  for (std::size_t i = 0; i < d; ++i) {
    sum[i] = x[i] + branch[i];
    half_ulps[i] = std::abs(sum[i]) * kHalfUlp;
    moments.mean += sum[i] / static_cast<double>(d);
  }
  for (const double s : sum) {
    moments.variance += std::pow(s - moments.mean, 2) / static_cast<double>(d);
  }
  const double divide_by = theory::divisor({}, std::sqrt(moments.variance));
  const std::vector<double> normalized =
      mapped(sum, [&](double s) { return (s - moments.mean) / divide_by; });
  return {
      {msg("Input x"), msg("What the sublayer reads: one token, drawn from N(0, 1)."), x,
       first_token(given), std::vector<double>(d)},
      {msg("Branch F(x)"), msg("The output of self-attention."), branch, {}, {}},
      {msg("Sum x + F(x)"), msg("The residual connection adds the input back: look for x's peaks."),
       first_token(sample.sum), sum, half_ulps},
      {msg("Normalized"),
       msg("The sum with mean 0 and standard deviation 1: the same shape, rescaled."),
       first_token(sample.y), normalized, std::vector<double>(d, kPipelineRounding)}};
}

}  // namespace

FigureResult pipeline(const FigureOptions& options) {
  Matrix<float> x;
  const NormSample sample = draw_sublayer(options, x);
  FigureResult result;
  for (const Step& step : steps(sample, x)) result.panels.push_back(panel_of(step));
  const std::vector<Panel>& panels = result.panels;
  auto check = [&](const char* claim, const Panel& panel) {
    result.checks.push_back(
        check_curve(claim, kPipelineSource, panel.measured[0], panel.predicted[0]));
  };
  check(msg("The sublayer reads x unchanged"), panels[0]);
  check(msg("The sum is x + F(x), rounded once"), panels[2]);
  check(msg("The output is (s − μ)/√(σ² + ε) of the sum s"), panels[3]);
  const auto sum = sample.sum.view().row(0);
  const auto y = sample.y.view().row(0);
  const double variance = std::pow(theory::output_deviation({}, deviation(sum)), 2);
  result.checks.push_back({.claim = msg("The output has mean 0"),
                           .source = kPipelineSource,
                           .measured = mean(y),
                           .low = -kPipelineRounding,
                           .high = kPipelineRounding});
  result.checks.push_back({.claim = msg("The output has variance σ²/(σ² + ε), which is 1"),
                           .source = kPipelineSource,
                           .measured = covariance(y, y),
                           .low = variance - 2 * kPipelineRounding,
                           .high = variance + 2 * kPipelineRounding});
  return result;
}

}  // namespace addnorm::lab
