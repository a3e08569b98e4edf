#pragma once

#include "addnorm/nn/parameter.h"

namespace addnorm {

/// Allocates the parameter's rounded value if products of type T need it.
template <typename T>
void store_as(Parameter<Arithmetic<T>>& parameter) {
  if constexpr (!kIsArithmetic<T>) {
    parameter.rounded.resize(parameter.value.rows(), parameter.value.cols());
  }
}

/// Returns the value in type T for products.
template <typename T>
MatrixView<const T> stored(const Parameter<Arithmetic<T>>& parameter) {
  if constexpr (kIsArithmetic<T>) {
    return parameter.value;
  } else {
    return parameter.rounded;
  }
}

}  // namespace addnorm
