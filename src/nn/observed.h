#pragma once

#include "nn/copy.h"

namespace addnorm {

/// The values in the type that a probe takes: the values themselves, or a copy in float32.
template <typename T>
class Observed {
 public:
  explicit Observed(MatrixView<const T> values) : values_(nn::converted(values, wide_)) {}
  operator MatrixView<const Arithmetic<T>>() const { return values_; }

 private:
  Matrix<Arithmetic<T>> wide_;
  MatrixView<const Arithmetic<T>> values_;
};

}  // namespace addnorm
