#include <algorithm>
#include <cmath>
#include <cstdint>

#include "addnorm/torch_generator.h"
#include "base/parallel.h"
#include "kernels/reference.h"
#include "lab/figures.h"
#include "lab/norm_sample.h"
#include "theory/norm_law.h"

namespace addnorm::lab {
namespace {

constexpr const char* kBackwardSource = msg("Xu et al. 2019, eq. 3–5; docs/theory.md");
constexpr NormOptions kNorm{};
/// The bound of a gradient's error in docs/numerics.md, relative to the gradient's largest value.
constexpr double kBackwardRounding = 1e-6;

struct Row {
  Matrix<float> x, dy;
};
/// Returns a row whose dy has a part along the vector of ones and a part along x̂.
Row draw(double sigma, std::size_t d, TorchGenerator& generator) {
  Row row{draw_row(3 * sigma, sigma, d, generator), Matrix<float>(1, d)};
  generator.fill_normal(row.dy.flat());
  for (std::size_t i = 0; i < d; ++i) {
    row.dy(0, i) += static_cast<float>(row.x(0, i) / sigma - 2);  // 1 + x̂
  }
  return row;
}

/// ∂(y · dy)/∂x by central differences of the float64 forward.
std::vector<double> central_differences(const Row& row) {
  constexpr double kStep = 1e-5;
  const auto x = row.x.flat();
  kernels::reference::Norm norm{kNorm, {1, x.size()}, {x.begin(), x.end()}, {}, {}};
  auto loss = [&] {
    const kernels::reference::Values y = norm_forward(norm).y;
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * row.dy(0, i);
    return sum;
  };
  std::vector<double> gradient;
  for (std::size_t i = 0; i < x.size(); ++i) {
    norm.x[i] = x[i] + kStep;
    const double above = loss();
    norm.x[i] = x[i] - kStep;
    const double below = loss();
    norm.x[i] = x[i];
    gradient.push_back((above - below) / (2 * kStep));
  }
  return gradient;
}

void add_one_gradient(FigureResult& result, const FigureOptions& options) {
  TorchGenerator generator(options.seed);
  const Row row = draw(1, options.width, generator);
  const Matrix<float> dx =
      sample_norm(post_norm_plan(kNorm, options.width, options.bug), {row.x, {}, row.dy}).d_sum;
  const std::vector<double> feature = count_up(options.width);
  const std::vector<double> expected = central_differences(row);
  const auto [least, most] = std::ranges::minmax(expected);
  const std::vector<double> tolerance(expected.size(), kBackwardRounding * std::max(most, -least));
  const Panel panel{
      .title = msg("One gradient"),
      .x = {msg("feature")},
      .y = {msg("gradient")},
      .caption = msg("The gradient that enters the norm's backward pass, and the one that "
                     "leaves it. The line does not use the formula: each feature is moved a "
                     "little, and the loss is computed again."),
      .measured = {{msg("in"), feature, {row.dy.flat().begin(), row.dy.flat().end()}},
                   {msg("out"), feature, {dx.flat().begin(), dx.flat().end()}}},
      .predicted = {within("out", feature, expected, tolerance)}};
  result.checks.push_back(check_curve(msg("dx equals central differences in float64"),
                                      kBackwardSource, panel.measured[1], panel.predicted[0]));
  result.panels.push_back(panel);
}

/// The results for each scale of the row.
struct Scales {
  std::vector<double> jacobian;
  std::vector<double> along_one, along_x_hat;  ///< remaining part of the gradient along 1 and x̂
};

Scales measure_scales(const StackPlan& plan, const std::vector<double>& sigmas,
                      std::uint64_t seed) {
  TorchGenerator generator(seed);
  Scales result;
  for (const double sigma : sigmas) {
    const Row row = draw(sigma, plan.block.d_model, generator);
    const Matrix<float> dx = sample_norm(plan, {row.x, {}, row.dy}).d_sum;
    const double divide_by = theory::divisor(kNorm, sigma);
    const double along =
        covariance(dx.flat(), row.x.flat()) / covariance(row.dy.flat(), row.x.flat());
    result.jacobian.push_back(jacobian_norms(plan, row.x)[0]);
    result.along_one.push_back(std::abs(mean(dx.flat()) / mean(row.dy.flat())) * divide_by);
    result.along_x_hat.push_back(std::abs(along) * divide_by);
  }
  return result;
}

Series predicted_jacobian(const std::vector<double>& sigmas, std::size_t d) {
  return within_factor(
      msg("derivative"), sigmas,
      mapped(sigmas, [&](double sigma) { return theory::jacobian_norm(d, sigma, kNorm.epsilon); }),
      1 + 10 * kBackwardRounding);
}
Series predicted_part(const char* name, const std::vector<double>& sigmas,
                      double (*law)(double deviation, double epsilon)) {
  // An upper bound of the gradient's largest value, to which kBackwardRounding is relative.
  constexpr double kLargest = 5;
  Series curve{name, sigmas, {}};
  for (const double sigma : sigmas) {
    const double value = law(sigma, kNorm.epsilon);
    curve.low.push_back(std::max(0.0, value - kLargest * kBackwardRounding));
    curve.high.push_back(value + kLargest * kBackwardRounding);
  }
  return curve;
}

void add_scales(FigureResult& result, const FigureOptions& options) {
  const StackPlan plan = post_norm_plan(kNorm, options.width, options.bug);
  std::vector<double> sigmas;
  for (int e = -6; e <= 6; ++e) sigmas.push_back(std::pow(10, 0.5 * e));
  std::vector<Scales> seeds(options.seeds);
  parallel_jobs(options.seeds,
                [&](std::size_t s) { seeds[s] = measure_scales(plan, sigmas, options.seed + s); });
  auto curve = [&](const char* name, std::vector<double> Scales::*values) {
    return mean_curve(name, sigmas, mapped(seeds, values));
  };
  Panel size{
      .title = msg("Its size"),
      .x = {msg("standard deviation σ of the row"), AxisScale::kLog},
      .y = {msg("size of the derivative"), AxisScale::kLog},
      .caption = msg("The gradient is divided by σ: a row ten times as large has a tenth of the "
                     "gradient. The gradient stops growing only below √ε = 0.003."),
      .measured = {curve(msg("derivative"), &Scales::jacobian)},
      .predicted = {predicted_jacobian(sigmas, options.width)}};
  Panel parts{
      .title = msg("What remains along two directions"),
      .x = {msg("standard deviation σ of the row"), AxisScale::kLog},
      .y = {msg("share that passes"), AxisScale::kLog},
      .caption = msg(
          "Shifting or rescaling a row changes nothing after the norm, so no gradient passes in "
          "these directions: its mean vanishes, and so does its part along x̂, except for ε. Below "
          "1e-6, only rounding is left."),
      .measured = {curve(msg("mean"), &Scales::along_one),
                   curve(msg("along x̂"), &Scales::along_x_hat)},
      .predicted = {predicted_part(msg("mean"), sigmas, [](double, double) { return 0.0; }),
                    predicted_part(msg("along x̂"), sigmas, theory::left_along_x_hat)}};
  result.checks.push_back(
      check_curve(msg("The derivative has size √(d − 2 + (ε/(σ² + ε))²)/√(σ² + ε)"),
                  kBackwardSource, size.measured[0], size.predicted[0]));
  result.checks.push_back(check_curve(msg("Nothing of the gradient's mean remains"),
                                      kBackwardSource, parts.measured[0], parts.predicted[0]));
  result.checks.push_back(check_curve(msg("A share ε/(σ² + ε) of its part along x̂ remains"),
                                      kBackwardSource, parts.measured[1], parts.predicted[1]));
  result.panels.push_back(std::move(size));
  result.panels.push_back(std::move(parts));
}

constexpr std::size_t kWidths[] = {4, 8, 16, 32, 64, 128, 256, 512, 1024};
constexpr std::size_t kRows = 32;  // for each seed and width

/// Returns the share of ‖g‖² that the norm removes from a gradient g of N(0, 1), on average over
/// rows.
double removed(const FigureOptions& options, std::size_t d, TorchGenerator& generator) {
  Matrix<float> x(kRows, d), dy(kRows, d);
  generator.fill_normal(x.flat());
  generator.fill_normal(dy.flat());
  const Matrix<float> dx = sample_norm(post_norm_plan(kNorm, d, options.bug), {x, {}, dy}).d_sum;
  double share = 0;
  for (std::size_t r = 0; r < kRows; ++r) {
    const auto in = dy.view().row(r);
    const auto out = dx.view().row(r);
    const double divide_by = theory::divisor(kNorm, deviation(x.view().row(r)));
    share += 1 - mean_product(out, out) / mean_product(in, in) * divide_by * divide_by;
  }
  return share / kRows;
}

void add_widths(FigureResult& result, const FigureOptions& options) {
  constexpr double kStandardErrors = 5;
  const std::vector<double> widths{std::begin(kWidths), std::end(kWidths)};
  const auto draws = draws_of(options, widths, [&](double width, TorchGenerator& generator) {
    return removed(options, static_cast<std::size_t>(width), generator);
  });
  const double n = static_cast<double>(options.seeds * kRows);
  std::vector<double> expected, tolerance;
  for (const std::size_t d : kWidths) {
    expected.push_back(theory::removed_share(d, 1, kNorm.epsilon));
    tolerance.push_back(kStandardErrors * std::sqrt(theory::removed_share_variance(d) / n) +
                        kNorm.epsilon);
  }
  const Panel panel{
      .title = msg("How much of the gradient is lost"),
      .x = {msg("width d"), AxisScale::kLog},
      .y = {msg("share of its squared length"), AxisScale::kLog},
      .caption = msg("A gradient without preferred direction loses 2 of its d dimensions: half "
                     "of it at d = 4, nearly nothing in a wide model."),
      .measured = {mean_curve(msg("removed"), widths, draws)},
      .predicted = {within(msg("removed"), widths, expected, tolerance)}};
  result.checks.push_back(
      check_curve(msg("The norm removes 2/d of a random gradient's squared length"),
                  kBackwardSource, panel.measured[0], panel.predicted[0]));
  result.panels.push_back(panel);
}

}  // namespace

FigureResult norm_backward(const FigureOptions& options) {
  FigureResult result;
  add_one_gradient(result, options);
  add_scales(result, options);
  add_widths(result, options);
  return result;
}

}  // namespace addnorm::lab
