#pragma once

#include "addnorm/nn/norm.h"
#include "addnorm/norm.h"

namespace addnorm {

/// The residual stream in a stack: x, and possibly a residual sum that is not computed yet. If a
/// norm follows, the sublayer's own `after` or the next one's `before`, it computes the sum in the
/// same pass over memory.
template <typename T>
class ResidualStream {
 public:
  using Value = Arithmetic<T>;

  explicit ResidualStream(MatrixView<const Value> x) : value_(x) {}

  /// The stream becomes s = skip ⊙ value() + gain ⊙ branch; `add.x` is set here. `sum` is where s
  /// will be written, and must live as long as s is wanted.
  void add(ResidualAdd<Value, T> add, MatrixView<Value> sum) {
    add.x = value();
    pending_ = add;
    sum_ = sum;
  }

  /// The stream as it is now; computes a pending sum.
  MatrixView<const Value> value() {
    if (!sum_.empty()) {
      residual_add<Value, T>(pending_, sum_);
      settle();
    }
    return value_;
  }

  /// y = norm(value()), together with a pending sum where y has the branch's type. The stream
  /// itself stays.
  template <typename Out>
  void normalize(Norm<T, Value, Out>& norm, MatrixView<Out> y, const Pass<T>& pass) {
    if constexpr (std::is_same_v<Out, T>) {
      if (!sum_.empty()) {
        norm.forward(pending_, sum_, y, pass);
        settle();
        return;
      }
    }
    norm.forward({.x = value()}, {}, y, pass);
  }

  /// From here on the stream is y.
  void replace(MatrixView<const Value> y) { value_ = y; }

 private:
  void settle() {
    value_ = sum_;
    sum_ = {};
  }

  MatrixView<const Value> value_;
  ResidualAdd<Value, T> pending_;
  MatrixView<Value> sum_;  // absent: nothing is pending
};

}  // namespace addnorm
