#pragma once

#include <cstdint>
#include <span>

#include "addnorm/api.h"
#include "addnorm/types.h"
#include "addnorm/view.h"

namespace addnorm {

/// The mean over rows of −ln softmax(logits)[target], in nats, and its gradient
/// (softmax(logits) − onehot(target))/rows, written to d_logits, which may be `logits` itself or
/// absent. NaN if any logit is. For float and double.
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
