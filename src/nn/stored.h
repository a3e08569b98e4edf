#pragma once

#include "addnorm/nn/parameter.h"

namespace addnorm {

/// Gives the parameter the rounded value that products of type T read, if they do.
template <typename T>
void store_as(Parameter<Arithmetic<T>>& parameter) {
  if constexpr (!kIsArithmetic<T>) {
    parameter.rounded.resize(parameter.value.rows(), parameter.value.cols());
  }
}

/// The value as products of type T read it.
template <typename T>
MatrixView<const T> stored(const Parameter<Arithmetic<T>>& parameter) {
  if constexpr (kIsArithmetic<T>) {
    return parameter.value;
  } else {
    return parameter.rounded;
  }
}

}  // namespace addnorm
