#pragma once

#include <cstdint>
#include <span>

#include "addnorm/api.h"
#include "addnorm/types.h"
#include "addnorm/view.h"

namespace addnorm {

/// Returns the mean over rows of −ln softmax(logits)[target], in nats. Writes its gradient
/// (softmax(logits) − onehot(target))/rows to d_logits, which may be `logits` itself or absent.
/// Returns NaN if any logit is NaN. For float and double.
template <typename T>
ADDNORM_API double cross_entropy(MatrixView<const T> logits, std::span<const std::int32_t> targets,
                                 MatrixView<T> d_logits);
/// \cond
template <NoneOf<float, double> T>
double cross_entropy(MatrixView<const T>, std::span<const std::int32_t>, MatrixView<T>) {
  return check_value<T>();
}
/// \endcond

}  // namespace addnorm
