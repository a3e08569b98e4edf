#include "addnorm/train/cross_entropy.h"

#include <cmath>
#include <numeric>
#include <vector>

#include "base/parallel.h"
#include "base/require.h"
#include "kernels/check.h"
#include "kernels/softmax.h"

namespace addnorm {

template <typename T>
double cross_entropy(MatrixView<const T> logits, std::span<const std::int32_t> targets,
                     MatrixView<T> d_logits) {
  require(
      targets.size() == logits.rows && !targets.empty(),
      "cross_entropy: there are {} targets for {} rows of logits, must be as many, and at least 1",
      targets.size(), logits.rows);
  kernels::check_optional_shape("cross_entropy", "d_logits", d_logits, logits.rows, logits.cols);
  for (const std::int32_t target : targets) {
    require(target >= 0 && std::size_t(target) < logits.cols,
            "cross_entropy: target {} is outside the vocabulary of {}", target, logits.cols);
  }
  // of the caller, which adds up in the rows' order
  static thread_local std::vector<double> memory;
  memory.resize(logits.rows);
  const std::span<double> losses = memory;
  const T share = T{1} / static_cast<T>(logits.rows);
  parallel_for(logits.rows, row_grain(logits.cols), [&](std::size_t r) {
    const auto values = logits.row(r);
    const auto target = static_cast<std::size_t>(targets[r]);
    const T at_target = values[target];
    const std::span<T> terms = d_logits.empty() ? std::span<T>() : d_logits.row(r);
    const auto [maximum, sum] = kernels::softmax_terms<T>(values, terms);
    losses[r] = std::log(static_cast<double>(sum)) - static_cast<double>(at_target - maximum);
    if (d_logits.empty()) return;
    const T factor = share / sum;
    for (T& term : terms) term *= factor;
    terms[target] -= share;
  });
  return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(logits.rows);
}

template double cross_entropy(MatrixView<const float>, std::span<const std::int32_t>,
                              MatrixView<float>);
template double cross_entropy(MatrixView<const double>, std::span<const std::int32_t>,
                              MatrixView<double>);

}  // namespace addnorm
