#include "train/cross_entropy.h"

#include <cmath>

#include "base/require.h"
#include "kernels/check.h"
#include "kernels/softmax.h"

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
    const T at_target = values[target];
    const std::span<T> terms = d_logits.empty() ? std::span<T>() : d_logits.row(r);
    const auto [maximum, sum] = softmax_terms<T>(values, terms);
    loss += std::log(static_cast<double>(sum)) - static_cast<double>(at_target - maximum);
    if (d_logits.empty()) continue;
    for (T& term : terms) term *= share / sum;
    d_logits(r, target) -= share;
  }
  return loss / static_cast<double>(logits.rows);
}

template double cross_entropy(MatrixView<const float>, std::span<const std::int32_t>,
                              MatrixView<float>);
template double cross_entropy(MatrixView<const double>, std::span<const std::int32_t>,
                              MatrixView<double>);

}  // namespace addnorm
