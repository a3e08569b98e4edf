#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "addnorm/float16.h"
#include "addnorm/torch_generator.h"
#include "kernels/reference.h"
#include "lab/figures.h"
#include "lab/norm_sample.h"
#include "theory/norm_law.h"

namespace addnorm::lab {
namespace {

constexpr const char* kEpsilonSource = "docs/theory.md";
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::vector<double> decades(int first, int last) {
  std::vector<double> x;
  for (int e = first; e <= last; ++e) x.push_back(std::pow(10, e));
  return x;
}

// The place of ε.

struct EpsilonPlace {
  EpsilonAt at;
  const char* text;
};
constexpr EpsilonPlace kPlaces[] = {{EpsilonAt::kVariance, "√(σ² + ε)"},
                                    {EpsilonAt::kDeviation, "σ + ε"}};
constexpr double kEpsilons[] = {1e-12, 1e-6, 1e-5};

void add_deviations(Panel& panel, const NormOptions& norm, const std::string& name,
                    const FigureOptions& options) {
  constexpr double kRounding = 1e-5;  // several times float32's rounding error, relative
  const StackPlan plan = post_norm_plan(norm, options.width, options.bug);
  const std::vector<double> sigmas = decades(-6, 3);
  const auto draws = draws_of(options, sigmas, [&](double sigma, TorchGenerator& generator) {
    const Matrix<float> x = draw_row(3 * sigma, sigma, options.width, generator);
    return deviation(sample_norm(plan, {x}).y.flat());
  });
  const std::vector<double> expected =
      mapped(sigmas, [&](double sigma) { return theory::output_deviation(norm, sigma); });
  panel.measured.push_back(mean_curve(name, sigmas, draws));
  panel.predicted.push_back(within_factor(name, sigmas, expected, 1 + kRounding));
}

void add_places(FigureResult& result, const FigureOptions& options) {
  Panel panel{.title = msg("Where ε outweighs the variance of a row"),
              .x = {msg("standard deviation σ of the row"), AxisScale::kLog},
              .y = {msg("standard deviation of the output"), AxisScale::kLog},
              .caption = msg(
                  "A norm is meant to give standard deviation 1. Added to the variance, ε shrinks "
                  "rows with σ below √ε; added to the deviation, only rows with σ below ε.")};
  for (const auto& [at, text] : kPlaces) {
    for (const double epsilon : kEpsilons) {
      add_deviations(panel, {.epsilon = epsilon, .epsilon_at = at},
                     fmt::format("{}, ε = {:g}", text, epsilon), options);
      result.checks.push_back(
          check_curve(msg("The output of a row has deviation σ ÷ ({}), ε = {:g}", text, epsilon),
                      kEpsilonSource, panel.measured.back(), panel.predicted.back()));
    }
  }
  result.panels.push_back(std::move(panel));
}

// The error of 16-bit storage.

/// An ε so small that only storage matters.
constexpr NormOptions kTinyEpsilon{.epsilon = 1e-20};

/// Returns the output of our kernels, which compute in float32, for rows x stored as T.
template <typename T>
std::vector<double> stored_norm(const NormOptions& norm, const Matrix<float>& x) {
  Matrix<T> stored(x.rows(), x.cols());
  Matrix<T> y(x.rows(), x.cols());
  std::ranges::transform(x.flat(), stored.data(), [](float v) { return T(v); });
  add_norm_forward<T>(norm, {.add = {.x = stored}, .y = y});
  return mapped(y.flat(), [](T v) { return double{static_cast<float>(v)}; });
}

struct Storage {
  const char* name;
  theory::StorageFormat format;
  std::vector<double> (*norm)(const NormOptions&, const Matrix<float>&);
};
constexpr Storage kStorages[] = {{"float16", theory::kFloat16Format, stored_norm<Float16>},
                                 {"bfloat16", theory::kBFloat16Format, stored_norm<BFloat16>}};

/// Returns the mean square error of rows relative to the exact output of unrounded values.
double mean_square_error(const Storage& storage, const NormOptions& norm, const Matrix<float>& x) {
  const std::vector<double> y = storage.norm(norm, x);
  const kernels::reference::Values exact =
      kernels::reference::norm_forward({.options = kTinyEpsilon,
                                        .shape = {x.rows(), x.cols()},
                                        .x = {x.flat().begin(), x.flat().end()}})
          .y;
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) sum += std::pow(y[i] - exact[i], 2);
  return sum / static_cast<double>(y.size());
}

/// Returns the error of storage: of the input, ÷ σ, plus of the output. It is kNaN if the formula
/// does not apply, and 1 if all values round to 0.
double predicted_error(const theory::StorageFormat& format, double sigma) {
  constexpr double kSmall = 0.1;  // so that the statistics are valid
  constexpr double kReach = 8;    // N(0, 1) has practically no values beyond
  if (kReach * sigma < theory::vanishes_to(format)) return 1;
  if (sigma >= format.overflows_from) return kNaN;
  const double read = theory::storage_error(format, sigma) / sigma;
  return read < kSmall ? std::hypot(read, theory::storage_error(format, 1)) : kNaN;
}

/// Counts the places where only one of the two curves has a number.
Check check_gaps(Message claim, Message source, const Series& measured,
                 const std::vector<double>& predicted) {
  Check check{.claim = std::move(claim), .source = std::move(source)};
  for (std::size_t i = 0; i < measured.x.size(); ++i) {
    if (std::isfinite(measured.y[i]) == std::isfinite(predicted[i])) continue;
    if (check.measured++ == 0) check.detail = msg("first at {:g}", measured.x[i]);
  }
  return check;
}

void add_storage(FigureResult& result, const FigureOptions& options) {
  constexpr std::size_t kRows = 4;  // of each seed
  // Squares of rounding errors have a standard deviation of less than twice their mean.
  const double n = static_cast<double>(options.seeds * kRows * options.width);
  const double factor = 1 + 5 / std::sqrt(n) + 2 / static_cast<double>(options.width);
  const NormOptions norm = post_norm_plan(kTinyEpsilon, options.width, options.bug).block.norm;
  const std::vector<double> sigmas = decades(-9, 5);
  Panel panel{.title = msg("Rows stored in 16 bits"),
              .x = {msg("standard deviation σ of the row"), AxisScale::kLog},
              .y = {msg("error of the output"), AxisScale::kLog},
              .caption = msg("Statistics are computed in float32. bfloat16 is coarse everywhere; "
                             "float16 is finer, but rounds small rows to 0 (error 1) and has no "
                             "number above 65504: there the row becomes NaN, a gap.")};
  for (const Storage& storage : kStorages) {
    const auto draws = draws_of(options, sigmas, [&](double sigma, TorchGenerator& generator) {
      Matrix<float> x(kRows, options.width);
      generator.fill_normal(x.flat(), 0, sigma);
      return mean_square_error(storage, norm, x);
    });
    const std::vector<double> expected =
        mapped(sigmas, [&](double sigma) { return predicted_error(storage.format, sigma); });
    panel.measured.push_back(rms_curve(storage.name, sigmas, draws));
    panel.predicted.push_back(within_factor(storage.name, sigmas, expected, factor));
    result.checks.push_back(
        check_curve(msg("{}: the error is that of rounding the input and the output", storage.name),
                    kEpsilonSource, panel.measured.back(), panel.predicted.back()));
    result.checks.push_back(check_gaps(
        msg("{}: only rows whose σ overflows are lost, from {:g} on", storage.name,
            storage.format.overflows_from),
        "IEEE 754", panel.measured.back(),
        mapped(sigmas, [&](double sigma) { return theory::stored(storage.format, sigma); })));
  }
  result.panels.push_back(std::move(panel));
}

// Float16 statistics.

/// Returns ±a, as stored in float16.
Matrix<float> two_valued_row(double a) {
  Matrix<float> row(1, 64);
  for (std::size_t i = 0; i < row.cols(); ++i) {
    row(0, i) = static_cast<float>(Float16(static_cast<float>(i % 2 == 0 ? a : -a)));
  }
  return row;
}

void add_half_statistics(FigureResult& result, const FigureOptions& options) {
  constexpr NormOptions kNorm{.epsilon = 1e-12};
  constexpr double kHalfRounding = 0x1p-10;
  const StackPlan plan = post_norm_plan(kNorm, 64, options.bug);
  std::vector<double> sizes, sound, half, sound_expected, half_expected;
  auto or_gap = [](double value) { return std::isfinite(value) ? value : kNaN; };
  for (int e = -26; e <= 17; ++e) {
    const double a = std::ldexp(1.0, e);
    const Matrix<float> x = two_valued_row(a);
    Matrix<float> y(1, x.cols());
    half_norm(plan.block.norm, x, y);
    sizes.push_back(a);
    sound.push_back(or_gap(deviation(sample_norm(plan, {x}).y.flat())));
    half.push_back(or_gap(deviation(y.flat())));
    sound_expected.push_back(
        or_gap(theory::output_deviation(kNorm, theory::stored(theory::kFloat16Format, a))));
    half_expected.push_back(
        or_gap(theory::stored_statistics_output(theory::kFloat16Format, a, kNorm.epsilon)));
  }
  Panel panel{.title = msg("Statistics computed in float16"),
              .x = {msg("size of the values, ±a"), AxisScale::kLog},
              .y = {msg("standard deviation of the output")},
              .caption = msg(
                  "ε is 1e-12. In float16 a² overflows from a = 256 on, and the output is 0; up to "
                  "a = 2^-13, both a² and ε underflow, and the output is divided by 0: a gap."),
              .measured = {{"float32", sizes, sound}, {"float16", sizes, half}},
              .predicted = {within_factor("float32", sizes, sound_expected, 1 + kHalfRounding),
                            within_factor("float16", sizes, half_expected, 1 + kHalfRounding)}};
  result.checks.push_back(
      check_curve(msg("Statistics in float32 are right for every value that float16 can store"),
                  kEpsilonSource, panel.measured[0], panel.predicted[0]));
  result.checks.push_back(check_curve(msg("Statistics in float16 give 0 from |x − μ| = 256 on"),
                                      kEpsilonSource, panel.measured[1], panel.predicted[1]));
  result.checks.push_back(check_gaps(msg("Statistics in float32 give a number unless x overflows"),
                                     kEpsilonSource, panel.measured[0], sound_expected));
  result.checks.push_back(
      check_gaps(msg("Statistics in float16 also give no number up to |x − μ| = 2^-13"),
                 kEpsilonSource, panel.measured[1], half_expected));
  result.panels.push_back(std::move(panel));
}

}  // namespace

FigureResult epsilon(const FigureOptions& options) {
  FigureResult result;
  add_places(result, options);
  add_storage(result, options);
  add_half_statistics(result, options);
  return result;
}

}  // namespace addnorm::lab
