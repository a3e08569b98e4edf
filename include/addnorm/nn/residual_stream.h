#pragma once

#include <utility>
#include <vector>

#include "addnorm/nn/norm.h"
#include "addnorm/norm.h"

namespace addnorm {

/// The lanes of a stream, rows × features each, wherever they stand.
template <typename V>
using LaneList = std::vector<MatrixView<V>>;

/// The residual stream in a stack: x, and possibly a residual sum that is not computed yet. If a
/// norm follows, the sublayer's own `after` or the next one's `before`, it computes the sum in the
/// same pass over memory. Or X, several lanes, all of which are there.
template <typename T>
class ResidualStream {
  static_assert(check_module<T>());

 public:
  using Value = Arithmetic<T>;

  explicit ResidualStream(MatrixView<const Value> x) : value_(x) {}
  /// Several lanes, and what they were before the last sublayer.
  explicit ResidualStream(LaneList<const Value> lanes, LaneList<const Value> previous = {})
      : lanes_(std::move(lanes)), previous_(std::move(previous)) {}

  /// The stream becomes s = skip ⊙ value() + gain ⊙ branch; `add.x` is set here. `sum` is where s
  /// will be written, and must live as long as s is wanted.
  void add(ResidualAdd<Value, T> add, MatrixView<Value> sum) {
    add.x = value();
    pending_ = add;
    sum_ = sum;
  }

  /// The stream as it is now; computes a pending sum. Of several lanes, the first one.
  MatrixView<const Value> value() {
    if (!lanes_.empty()) return lanes_.front();
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

  /// From here on the stream is y; of several lanes, the first one.
  void replace(MatrixView<const Value> y) { (lanes_.empty() ? value_ : lanes_.front()) = y; }

  /// Of several lanes: X, and what it was before the last sublayer.
  const LaneList<const Value>& lanes() const { return lanes_; }
  const LaneList<const Value>& previous() const { return previous_; }
  /// The stream becomes X′.
  void advance(LaneList<const Value> lanes) {
    previous_ = std::move(lanes_);
    lanes_ = std::move(lanes);
  }

 private:
  void settle() {
    value_ = sum_;
    sum_ = {};
  }

  MatrixView<const Value> value_;
  ResidualAdd<Value, T> pending_;
  MatrixView<Value> sum_;  // absent: nothing is pending
  LaneList<const Value> lanes_, previous_;
};

/// The gradient of the residual stream: it goes in as that of what a sublayer leaves, and comes out
/// as that of what the sublayer read, in the same memory.
template <typename T>
struct StreamGradient {
  static_assert(check_module<T>());
  using Value = Arithmetic<T>;

  MatrixView<Value> one = {};  ///< of one lane
  LaneList<Value> lanes = {};  ///< of several
  /// What is to be added to the gradient of the stream that the sublayer before this one reads.
  Matrix<Value> of_previous = {};

  /// Of one lane, or of the first one.
  MatrixView<Value> first() const { return lanes.empty() ? one : lanes.front(); }

  explicit StreamGradient(MatrixView<Value> gradient) : one(gradient) {}
  explicit StreamGradient(LaneList<Value> all) : lanes(std::move(all)) {}
};

}  // namespace addnorm
