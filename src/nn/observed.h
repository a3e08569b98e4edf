#pragma once

#include "addnorm/matrix.h"
#include "kernels/convert.h"

namespace addnorm {

/// The values in the type that a probe takes: the values themselves, or a copy in float32.
template <typename T>
class Observed {
 public:
  explicit Observed(MatrixView<const T> values) : values_(values) {
    if constexpr (!kIsArithmetic<T>) {
      wide_.resize(values.rows, values.cols);
      kernels::convert<T, Arithmetic<T>>(values, wide_);
    }
  }
  operator MatrixView<const Arithmetic<T>>() const {
    if constexpr (kIsArithmetic<T>) {
      return values_;
    } else {
      return wide_;
    }
  }

 private:
  MatrixView<const T> values_;
  Matrix<Arithmetic<T>> wide_;
};

}  // namespace addnorm
