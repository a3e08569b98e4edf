#pragma once

/// The statistics of a norm that plain code computes once for each row.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "addnorm/norm.h"

namespace addnorm::kernels {

/// Returns the divisor of the sum of squares.
template <typename T>
T variance_divisor(const NormOptions& options, std::size_t n) {
  return static_cast<T>(options.variance == Variance::kPopulation ? n : n - 1);
}

/// Returns ε in the form that is added to the variance.
inline double epsilon_of_variance(const NormOptions& options) {
  const double epsilon = options.epsilon;
  return options.epsilon_at == EpsilonAt::kVariance ? epsilon : epsilon * epsilon;
}

/// Whether ε is so large that vanishing squares do not matter.
template <typename T>
bool epsilon_hides_underflow(const NormOptions& options) {
  using Limits = std::numeric_limits<T>;
  return epsilon_of_variance(options) > Limits::min() / Limits::epsilon();
}

/// Returns the scale, a power of two, for values up to `abs_max`. It is 1 unless their squares
/// could overflow, or underflow while ε is too small to hide that. It then moves the values far
/// from both limits, but keeps the scale, √ε·scale and ε·scale² in range.
template <typename T>
T safe_scale(T abs_max, const NormOptions& options) {
  constexpr int kMaxExponent = std::numeric_limits<T>::max_exponent;
  constexpr int kSafe = kMaxExponent * 3 / 8;
  if (!std::isfinite(abs_max) || abs_max == 0) return T{1};
  const int exponent = std::ilogb(abs_max);
  if (exponent < kSafe && (exponent > -kSafe || epsilon_hides_underflow<T>(options))) return T{1};
  int most = kMaxExponent - 2;
  if (const double epsilon = epsilon_of_variance(options); epsilon > 0) {
    most = std::min(most, (kMaxExponent - 8 - std::ilogb(epsilon)) / 2);
  }
  return std::ldexp(T{1}, std::min(most, kMaxExponent / 4 - exponent));
}

/// deviation and epsilon_ratio from a variance of values that were multiplied with `scale`.
template <typename T>
void set_deviation(const NormOptions& options, T variance, NormStatistics<T>& statistics) {
  const double scale = statistics.scale;  // ε·scale² may exceed T's range before the rounding
  const T root = std::sqrt(std::max(variance, T{0}));
  statistics.variance = variance;
  T deviation;
  if (options.epsilon_at == EpsilonAt::kVariance) {
    // With equal values only ε remains, though ε·scale² may vanish.
    deviation = root == 0 ? std::sqrt(static_cast<T>(options.epsilon)) * statistics.scale
                          : std::sqrt(variance + static_cast<T>(options.epsilon * scale * scale));
  } else {
    deviation = root + static_cast<T>(options.epsilon * scale);
    statistics.epsilon_ratio = root > 0 ? deviation / root : T{0};
  }
  // A row with a NaN or Inf gives NaN everywhere, not partly 0. A row of equal values gives 0 for
  // any ε > 0, not 0·∞.
  constexpr T kMost = std::numeric_limits<T>::max();
  statistics.reciprocal = T{1} / deviation;
  if (options.epsilon > 0) statistics.reciprocal = std::min(statistics.reciprocal, kMost);
  if (!std::isfinite(deviation)) statistics.reciprocal = std::numeric_limits<T>::quiet_NaN();
}

/// Returns the effective γ: γ or 1 + γ, times the output scale.
template <typename T>
T effective_gamma(const NormOptions& options, T gamma) {
  const T one = options.gamma_form == GammaForm::kOnePlus ? T{1} : T{0};
  return (one + gamma) * static_cast<T>(options.output_scale);
}

}  // namespace addnorm::kernels
