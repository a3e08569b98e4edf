#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "addnorm/view.h"

namespace addnorm::kernels {

/// Softmax of the first `visible` of n scores, over those whose `blocked` entries are all 0; the
/// others become 0. A row without visible scores becomes all 0.
///     p_i = exp(s_i − max s) / Σ_j exp(s_j − max s), in place. Sums as in docs/numerics.md.
template <typename T>
struct SoftmaxRow {
  std::span<T> scores;
  std::size_t visible;                     ///< columns from here on are blocked (causal mask)
  std::span<const std::uint8_t> blocked1;  ///< nonzero: blocked; empty: none
  std::span<const std::uint8_t> blocked2;
};
template <typename T>
void softmax_row(const SoftmaxRow<T>& row);

/// ds_i = p_i·(dp_i − Σ_j p_j·dp_j), written to dp.
template <typename T>
void softmax_row_backward(std::span<const T> p, std::span<T> dp);

/// The maximum and the sum of a softmax. The terms exp(x_i − max x) are written to `terms`, which
/// may be x, or empty if only the sum is wanted.
template <typename T>
struct SoftmaxSum {
  T maximum;  ///< of x
  T sum;      ///< of the terms
};
template <typename T>
SoftmaxSum<T> softmax_terms(std::span<const T> x, std::span<T> terms);

}  // namespace addnorm::kernels
