#pragma once

/// What every norm does with one set of values that lies contiguous in memory. All sums run over 16
/// lanes and one fixed tree, so their bits depend on nothing but the values (docs/numerics.md).

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "addnorm/norm.h"
#include "kernels/statistics.h"

namespace addnorm::row {

inline constexpr std::size_t kLanes = 16;

template <typename T>
using Lanes = std::array<T, kLanes>;

template <typename T>
T tree_sum(Lanes<T> lanes) {
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

/// Calls block(begin, n) for the parts of 0 … n−1 that are summed on their own, so that the error
/// of a sum does not grow with the length of a wide row.
template <typename Block>
void for_each_block(std::size_t n, const Block& block) {
  constexpr std::size_t kBlock = 4096;
  for (std::size_t begin = 0; begin < n; begin += kBlock) {
    block(begin, std::min(kBlock, n - begin));
  }
}

/// Calls body(lane, i) for i = begin … begin + n − 1, lane = (i − begin) mod 16, so that a compiler
/// can vectorize it.
template <typename Body>
inline void for_each_lane(std::size_t begin, std::size_t n, const Body& body) {
  const std::size_t whole = n - n % kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) {
#ifdef __clang__  // which otherwise unrolls this first, and then finds no vectors in it
#pragma clang loop vectorize(enable) unroll(disable)
#endif
    for (std::size_t l = 0; l < kLanes; ++l) body(l, begin + i + l);
  }
  for (std::size_t i = whole; i < n; ++i) body(i - whole, begin + i);
}

/// Σ value(i) for i = 0 … n−1.
template <typename T, typename Value>
T sum(std::size_t n, const Value& value) {
  T total = 0;
  for_each_block(n, [&](std::size_t begin, std::size_t length) {
    Lanes<T> lanes{};
    for_each_lane(begin, length, [&](std::size_t l, std::size_t i) { lanes[l] += value(i); });
    total += tree_sum(lanes);
  });
  return total;
}

/// Σd and Σd² of d = (x·scale − hi) − lo.
template <typename T>
struct Deviations {
  T sum = 0;
  T squares = 0;
};
template <typename T>
Deviations<T> deviations(const T* x, std::size_t n, T scale, T hi, T lo) {
  Deviations<T> total;
  for_each_block(n, [&](std::size_t begin, std::size_t length) {
    Lanes<T> sums{};
    Lanes<T> squares{};
    for_each_lane(begin, length, [&](std::size_t l, std::size_t i) {
      const T d = (x[i] * scale - hi) - lo;
      sums[l] += d;
      squares[l] += d * d;
    });
    total.sum += tree_sum(sums);
    total.squares += tree_sum(squares);
  });
  return total;
}

/// Mean and deviation of n ≥ 1 values: a mean, then Σd and Σd² about it, whose Σd says by how much
/// the rounded mean was off: variance = (Σd² − (Σd)²/n)/n, mean = hi + Σd/n. Where the values
/// differ less than the mean was off, the second pass is done again about the better mean.
template <typename T>
NormStatistics<T> statistics(const NormOptions& options, const T* x, std::size_t n) {
  T total = 0;
  Lanes<T> maxima{};
  for_each_block(n, [&](std::size_t begin, std::size_t length) {
    Lanes<T> sums{};
    for_each_lane(begin, length, [&](std::size_t l, std::size_t i) {
      sums[l] += x[i];
      maxima[l] = std::max(maxima[l], std::abs(x[i]));
    });
    total += tree_sum(sums);
  });
  const auto count = static_cast<T>(n);
  const T divisor = options.variance == Variance::kPopulation ? count : count - 1;

  NormStatistics<T> result;
  result.scale = safe_scale(*std::max_element(maxima.begin(), maxima.end()), options.epsilon);
  const T scale = result.scale;
  if (options.kind == NormKind::kRms) {
    const T squares = sum<T>(n, [&](std::size_t i) { return (x[i] * scale) * (x[i] * scale); });
    set_deviation(options, squares / divisor, result);
    return result;
  }
  if (scale != 1) total = sum<T>(n, [&](std::size_t i) { return x[i] * scale; });
  result.mean_hi = total / count;
  Deviations<T> d = deviations(x, n, scale, result.mean_hi, T{0});
  T spread = d.squares - d.sum * d.sum / count;
  result.mean_lo = d.sum / count;
  if (spread < d.squares / 2) {
    d = deviations(x, n, scale, result.mean_hi, result.mean_lo);
    spread = d.squares - d.sum * d.sum / count;
    result.mean_lo += d.sum / count;
  }
  set_deviation(options, spread / divisor, result);
  return result;
}

template <typename T>
T normalized(const NormStatistics<T>& s, T x) {
  return ((x * s.scale - s.mean_hi) - s.mean_lo) * s.reciprocal;
}

/// The sums that a norm's backward takes from one set with g = γ·dy: first the mean of g, then
/// c = Σ (g − mean)·x̂ divided by the variance's divisor. A norm that does not centre has mean 0.
template <typename T>
struct BackwardSums {
  T mean_g = 0;
  T projection = 0;
};
template <typename T, typename Gradient>
BackwardSums<T> backward_sums(const NormOptions& options, const NormStatistics<T>& s, const T* x,
                              std::size_t n, const Gradient& g) {
  const auto count = static_cast<T>(n);
  BackwardSums<T> result;
  if (options.kind != NormKind::kRms) result.mean_g = sum<T>(n, g) / count;
  const T projected =
      sum<T>(n, [&](std::size_t i) { return (g(i) - result.mean_g) * normalized(s, x[i]); });
  const T divisor = options.variance == Variance::kPopulation ? count : count - 1;
  result.projection = projected / divisor * s.epsilon_ratio;
  return result;
}

template <typename T>
T input_gradient(const NormStatistics<T>& s, const BackwardSums<T>& sums, T g, T x_hat) {
  return ((g - sums.mean_g) - x_hat * sums.projection) * (s.reciprocal * s.scale);
}

}  // namespace addnorm::row
