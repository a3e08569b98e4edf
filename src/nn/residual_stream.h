#pragma once

#include "addnorm/norm.h"
#include "nn/norm.h"

namespace addnorm {

/// The residual stream on its way through a stack: x, and the residual sum that a sublayer has
/// handed on and nobody has computed yet. An add is always followed by some norm (the sublayer's
/// own `after` or the next one's `before`), and that norm does both in one pass over memory.
template <typename T>
class ResidualStream {
 public:
  explicit ResidualStream(MatrixView<const T> x) : value_(x) {}

  /// The stream becomes s = skip ⊙ value() + gain ⊙ branch; `add.x` is set here. `sum` is where s
  /// will be written, and must live as long as s is wanted.
  void add(ResidualAdd<T> add, MatrixView<T> sum) {
    add.x = value();
    pending_ = add;
    sum_ = sum;
  }

  /// The stream as it is now; computes a pending sum.
  MatrixView<const T> value() {
    if (!sum_.empty()) {
      residual_add(pending_, sum_);
      settle();
    }
    return value_;
  }

  /// y = norm(value()), together with a pending sum. The stream itself stays.
  void normalize(Norm<T>& norm, MatrixView<T> y, const Pass<T>& pass) {
    if (sum_.empty()) {
      norm.forward({.x = value_}, {}, y, pass);
    } else {
      norm.forward(pending_, sum_, y, pass);
      settle();
    }
  }

  /// From here on the stream is y.
  void replace(MatrixView<const T> y) { value_ = y; }

 private:
  void settle() {
    value_ = sum_;
    sum_ = {};
  }

  MatrixView<const T> value_;
  ResidualAdd<T> pending_;
  MatrixView<T> sum_;  // absent: nothing is pending
};

}  // namespace addnorm
