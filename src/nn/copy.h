#pragma once

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

}  // namespace addnorm::nn
