#pragma once

#include "addnorm/matrix.h"
#include "addnorm/norm.h"
#include "kernels/convert.h"

namespace addnorm::nn {

/// to = from, rounded where To is narrower. `to` may be `from` itself.
template <typename From, typename To>
void copy(MatrixView<const From> from, MatrixView<To> to) {
  if constexpr (std::is_same_v<From, To>) {
    if (from.data != to.data) residual_add<To>({.x = from}, to);
  } else {
    kernels::convert<From, To>(from, to);
  }
}

/// Returns the values in type To: the values themselves, or a copy in `memory`.
template <typename To, typename From>
MatrixView<const To> converted(MatrixView<const From> values, Matrix<To>& memory) {
  if constexpr (std::is_same_v<From, To>) {
    return values;
  } else {
    memory.resize(values.rows, values.cols);
    kernels::convert<From, To>(values, memory);
    return memory;
  }
}

}  // namespace addnorm::nn
