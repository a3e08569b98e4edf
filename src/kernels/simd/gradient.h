/// The gradient of a norm.

#pragma once

#include "kernels/simd/row.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

// A norm ŝ = (s − mean)/deviation of n values has the gradient
//
//     ds = (g − mean(g) − ŝ·Σ(g·ŝ)/n)/deviation with g = γ·dy,
//
// without mean(g) if it does not centre. Σŝ is 0, so any number may be subtracted from each g: the
// mean of the first values is, so that the sums lose few bits if all g are alike. The mean of s is
// hi + lo; lo is no larger than the deviation, and is subtracted with mean(g) rather than from
// each s:
//
//     ds = ((g − shift) − offset − (s − hi)·slope)/deviation

/// The shift is the mean of this many first values of g.
inline constexpr std::size_t kGradientHead = 4;

template <typename V>
HWY_INLINE V inverse_gradient_head(std::size_t n) {
  return V{1} / static_cast<V>(HWY_MIN(kGradientHead, n));
}

/// Returns the shift of n values of g. `head(count)` returns the first values of g.
template <typename V, typename Head>
HWY_INLINE V gradient_shift(std::size_t n, Head&& head) {
  return tree_sum(n < kGradientHead ? head(Tail{n}) : head(Full())) * inverse_gradient_head<V>(n);
}

/// Shift, offset and slope of ds, for one set of values.
template <typename V>
struct NormGradient {
  V shift = 0;
  V offset = 0;
  V slope = 0;

  /// Computes slope, and offset if the norm centres. `mean` is the mean of g − shift, `projection`
  /// the sum of (g − shift)·ŝ divided by the variance's divisor.
  HWY_INLINE void finish(const NormStatistics<V>& statistics, bool centred, V mean, V projection) {
    slope = projection * statistics.epsilon_ratio * statistics.reciprocal;
    offset = centred ? mean - statistics.mean_lo * slope : V{0};
  }
};

/// Sums g − shift and (g − shift)·ŝ. Norms that do not centre need only the second sum.
template <typename V, std::size_t N>
struct GradientSums {
  Pack<V, N> sum, projected;

  static HWY_INLINE GradientSums zero() { return {set<N>(V{0}), set<N>(V{0})}; }

  template <bool kCentred, typename Count>
  HWY_INLINE void add(const Pack<V, N>& shifted_g, const Pack<V, N>& s_hat, Count count) {
    if constexpr (kCentred) sum = sum + keep(shifted_g, count);
    projected = projected + keep(shifted_g * s_hat, count);
  }
};

/// Computes ds of one set of values. kScaled: the statistics have a scale other than 1.
template <typename V, std::size_t N = kPack, bool kScaled = true, bool kCentred = true>
struct NormDerivative {
  Normalize<V, N, kScaled> normalize;
  Broadcast<V, N> shift, offset, slope, factor;

  HWY_INLINE NormDerivative(const NormStatistics<V>& statistics, const NormGradient<V>& gradient)
      : normalize(statistics),
        shift(gradient.shift),
        offset(gradient.offset),
        slope(gradient.slope),
        factor(statistics.reciprocal * statistics.scale) {}

  HWY_INLINE Pack<V, N> operator()(const Pack<V, N>& g, const Pack<V, N>& s) const {
    if constexpr (kCentred) {
      return of_shifted(g - shift, normalize.from_hi(s));
    } else {
      return of_shifted(g, normalize.from_hi(s));
    }
  }
  /// Computes ds from g − shift and s − hi.
  HWY_INLINE Pack<V, N> of_shifted(const Pack<V, N>& g, const Pack<V, N>& s_from_hi) const {
    if constexpr (kCentred) {
      return ((g - offset) - s_from_hi * slope) * factor;
    } else {
      return (g - s_from_hi * slope) * factor;
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
