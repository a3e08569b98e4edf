#pragma once

/// The statistics of a row, which forward computes and backward reads.

#include <cmath>

#include "addnorm/norm.h"

namespace addnorm::kernels::cuda {

/// NormOptions and the number of features in the form that kernels use, without divisions in
/// threads.
struct NormNumbers {
  bool has_mean, adds_to_deviation, epsilon_is_positive;
  bool hides_underflow;  ///< ε is so large that vanishing squares do not matter
  int most_exponent;     ///< largest exponent of a scale: ε·scale² must stay in float32's range
  double epsilon, one_over_count, one_over_divisor;
  float gamma_offset;  ///< 1 where γ means 1 + γ
  float output_scale;

  NormNumbers(const NormOptions& options, std::size_t features)
      : has_mean(options.kind == NormKind::kLayer),
        adds_to_deviation(options.epsilon_at == EpsilonAt::kDeviation),
        epsilon_is_positive(options.epsilon > 0),
        hides_underflow(beside_variance(options) > 0x1p-103),
        most_exponent(
            beside_variance(options) > 0 ? (120 - std::ilogb(beside_variance(options))) / 2 : 126),
        epsilon(options.epsilon),
        one_over_count(1.0 / static_cast<double>(features)),
        one_over_divisor(options.variance == Variance::kPopulation
                             ? one_over_count
                             : 1.0 / (static_cast<double>(features) - 1.0)),
        gamma_offset(options.gamma_form == GammaForm::kOnePlus ? 1.0F : 0.0F),
        output_scale(static_cast<float>(options.output_scale)) {}

 private:
  static double beside_variance(const NormOptions& options) {
    return options.epsilon_at == EpsilonAt::kVariance ? options.epsilon
                                                      : options.epsilon * options.epsilon;
  }
};

/// Returns a power of two that brings a deviation near 1 if its square would overflow float32, or
/// vanish beside an equally small ε; else 1.
__device__ inline float safe_scale(const NormNumbers& norm, double variance) {
  constexpr double kLargest = 0x1p100, kSmallest = 0x1p-100;
  if (variance < kLargest && (variance > kSmallest || norm.hides_underflow)) return 1.0F;
  if (!(variance > 0) || isinf(variance)) return 1.0F;
  const int exponent = min(-ilogb(variance) / 2, min(norm.most_exponent, 126));
  return scalbnf(1.0F, max(-126, exponent));
}

/// Computes the statistics from Σd and Σd² of d = x − origin. kRms has the origin 0 and no mean.
///
/// d rounds in float64 by at most a relative 2⁻⁵³. If the origin is one of the n values, (Σd)²/n is
/// at most n times the remainder Σd² − (Σd)²/n. So the variance has at least 30 correct bits for
/// 65,536 values and any mean.
__device__ inline NormStatistics<float> statistics_of(const NormNumbers& norm, double sum,
                                                      double squares, double origin) {
  const double shift = norm.has_mean ? sum * norm.one_over_count : 0.0;
  double variance = fma(-shift, sum, squares) * norm.one_over_divisor;
  if (variance < 0) variance = 0;
  NormStatistics<float> s;
  s.scale = safe_scale(norm, variance);
  const double scale = s.scale;
  const double mean = norm.has_mean ? (origin + shift) * scale : 0.0;
  s.mean_hi = static_cast<float>(mean);
  s.mean_lo = static_cast<float>(mean - s.mean_hi);
  s.variance = static_cast<float>(variance * scale * scale);
  float deviation;
  if (norm.adds_to_deviation) {
    const float root = __fsqrt_rn(s.variance);
    deviation = root + static_cast<float>(norm.epsilon * scale);
    s.epsilon_ratio = root > 0 ? __fdiv_rn(deviation, root) : 0.0F;
  } else {
    deviation = __fsqrt_rn(static_cast<float>((variance + norm.epsilon) * scale * scale));
  }
  constexpr float kMost = 3.4028234663852886e38F;
  s.reciprocal = __frcp_rn(deviation);
  // With any ε > 0 equal values become 0, and not 0·∞. A row that holds NaN or Inf becomes NaN
  // everywhere.
  if (norm.epsilon_is_positive) s.reciprocal = fminf(s.reciprocal, kMost);
  if (!isfinite(deviation)) s.reciprocal = __int_as_float(0x7FC00000);
  return s;
}

/// Returns x·scale − mean_hi: x − mean except for mean_lo.
__device__ inline float from_mean(const NormStatistics<float>& s, float x) {
  return fmaf(x, s.scale, -s.mean_hi);
}
/// Returns x̂ of from_mean(s, x).
__device__ inline float normalized(const NormStatistics<float>& s, float from_mean) {
  return (from_mean - s.mean_lo) * s.reciprocal;
}

/// The numbers of a row for dx, computed from backward's sums of g and of g·(x − mean_hi).
struct RowGradient {
  float mean_hi = 0, mean_lo = 0, slope, factor;

  __device__ RowGradient(const NormNumbers& norm, const NormStatistics<float>& s,
                         const double (&sums)[2]) {
    double products = sums[1];  // Σ g·(x − mean)
    if (norm.has_mean) {
      products -= s.mean_lo * sums[0];
      const double mean = sums[0] * norm.one_over_count;
      mean_hi = static_cast<float>(mean);
      mean_lo = static_cast<float>(mean - mean_hi);
    }
    slope = static_cast<float>(products * norm.one_over_divisor) * s.reciprocal * s.epsilon_ratio;
    factor = s.reciprocal * s.scale;
  }

  /// Returns dx = ((g − mean_hi) − mean_lo − x̂·slope)·factor.
  __device__ float dx(float g, float x_hat) const {
    return fmaf(-x_hat, slope, (g - mean_hi) - mean_lo) * factor;
  }
};

}  // namespace addnorm::kernels::cuda
