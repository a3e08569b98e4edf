#include "kernels/softmax.h"

#include <cmath>
#include <limits>

#include "kernels/math.h"
#include "kernels/row.h"

namespace addnorm {

template <typename T>
void softmax_row(const SoftmaxRow<T>& row) {
  constexpr T kBlocked = -std::numeric_limits<T>::infinity();
  const std::size_t n = row.visible;
  T* s = row.scores.data();
  for (const auto& blocked : {row.blocked1, row.blocked2}) {
    for (std::size_t i = 0; i < std::min(n, blocked.size()); ++i) {
      if (blocked[i] != 0) s[i] = kBlocked;
    }
  }
  T maximum = kBlocked;
  bool visible = false;  // a NaN is, and makes the whole row NaN
  for (std::size_t i = 0; i < n; ++i) {
    maximum = std::max(maximum, s[i]);
    visible |= s[i] != kBlocked;
  }
  std::fill(s + n, s + row.scores.size(), T{0});
  if (!visible) {
    std::fill_n(s, n, T{0});
    return;
  }
  for (std::size_t i = 0; i < n; ++i) s[i] = math::exp(s[i] - maximum);
  const T factor = T{1} / row::sum<T>(n, [&](std::size_t i) { return s[i]; });
  for (std::size_t i = 0; i < n; ++i) s[i] *= factor;
}

template <typename T>
void softmax_row_backward(std::span<const T> p, std::span<T> dp) {
  const T mean = row::sum<T>(p.size(), [&](std::size_t i) { return p[i] * dp[i]; });
  for (std::size_t i = 0; i < p.size(); ++i) dp[i] = p[i] * (dp[i] - mean);
}

template void softmax_row(const SoftmaxRow<float>&);
template void softmax_row(const SoftmaxRow<double>&);
template void softmax_row_backward(std::span<const float>, std::span<float>);
template void softmax_row_backward(std::span<const double>, std::span<double>);

}  // namespace addnorm
