#include "train/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "base/require.h"
#include "kernels/check.h"
#include "kernels/math.h"
#include "kernels/row.h"

namespace addnorm {

template <typename T>
double cross_entropy(MatrixView<const T> logits, std::span<const std::int32_t> targets,
                     MatrixView<T> d_logits) {
  require(targets.size() == logits.rows && !targets.empty(),
          "cross_entropy: there are {} targets for {} rows of logits, must be as many and not none",
          targets.size(), logits.rows);
  check_optional_shape("cross_entropy", "d_logits", d_logits, logits.rows, logits.cols);
  const T share = T{1} / static_cast<T>(logits.rows);
  double loss = 0;
  for (std::size_t r = 0; r < logits.rows; ++r) {
    const auto values = logits.row(r);
    const auto target = static_cast<std::size_t>(targets[r]);
    require(target < values.size(), "cross_entropy: target {} is outside the vocabulary of {}",
            targets[r], values.size());
    const T maximum = *std::max_element(values.begin(), values.end());
    const T at_target = values[target];
    const T* x = values.data();
    const T sum =
        row::sum<T>(values.size(), [&](std::size_t i) { return math::exp(x[i] - maximum); });
    loss += std::log(static_cast<double>(sum)) - static_cast<double>(at_target - maximum);
    if (d_logits.empty()) continue;
    T* dx = d_logits.row(r).data();
    for (std::size_t i = 0; i < values.size(); ++i)
      dx[i] = math::exp(x[i] - maximum) * (share / sum);
    d_logits(r, target) -= share;
  }
  return loss / static_cast<double>(logits.rows);
}

template double cross_entropy(MatrixView<const float>, std::span<const std::int32_t>,
                              MatrixView<float>);
template double cross_entropy(MatrixView<const double>, std::span<const std::int32_t>,
                              MatrixView<double>);

}  // namespace addnorm
