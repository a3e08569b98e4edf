#pragma once

#include <span>
#include <utility>
#include <vector>

#include "addnorm/nn/norm.h"
#include "addnorm/norm.h"

namespace addnorm {

/// The lanes of a stream, rows × features each, at any addresses.
template <typename V>
using LaneList = std::vector<MatrixView<V>>;

/// The residual stream in a stack: x, or several lanes X. x may be a pending residual sum, which is
/// not computed yet. The next norm, the sublayer's own `after` or the next sublayer's `before`,
/// then computes the sum in the same pass over memory. Lanes are never pending.
template <typename T>
class ResidualStream {
  static_assert(check_module<T>());

 public:
  using Value = Arithmetic<T>;

  explicit ResidualStream(MatrixView<const Value> x) : value_(x) {}
  /// Several lanes, and their values before the last sublayer.
  explicit ResidualStream(LaneList<const Value> lanes, LaneList<const Value> previous = {})
      : lanes_(std::move(lanes)), previous_(std::move(previous)) {}

  /// Makes the stream s = skip ⊙ value() + gain ⊙ branch; sets `add.x`. `sum` is the memory of s
  /// and must live as long as s is used.
  void add(ResidualAdd<Value, T> add, MatrixView<Value> sum) {
    add.x = value();
    pending_ = add;
    sum_ = sum;
  }

  /// Returns the stream, after computing a pending sum. With several lanes, the first one.
  MatrixView<const Value> value() {
    if (!lanes_.empty()) return lanes_.front();
    if (!sum_.empty()) {
      residual_add<Value, T>(pending_, sum_);
      settle();
    }
    return value_;
  }

  /// y = norm(value()), in one pass with a pending sum if y has the branch's type. The stream is
  /// unchanged.
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

  /// Replaces the stream by y; with several lanes, the first one.
  void replace(MatrixView<const Value> y) { (lanes_.empty() ? value_ : lanes_.front()) = y; }

  /// The lanes X, and their values before the last sublayer; empty for one lane.
  const LaneList<const Value>& lanes() const { return lanes_; }
  const LaneList<const Value>& previous() const { return previous_; }
  /// Replaces the stream X by X′.
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

/// The gradient of the residual stream. A sublayer's backward replaces the gradient of its output
/// by that of its input, in the same memory.
template <typename T>
struct StreamGradient {
  static_assert(check_module<T>());
  using Value = Arithmetic<T>;

  MatrixView<Value> one = {};  ///< of a stream of one lane
  LaneList<Value> lanes = {};  ///< of a stream of several lanes
  /// A term that the previous sublayer's backward adds to the gradient of its input.
  Matrix<Value> of_previous = {};

  /// Returns the gradients of all lanes, or of the only one.
  std::span<const MatrixView<Value>> all() const {
    return lanes.empty() ? std::span(&one, 1) : std::span(lanes);
  }
  MatrixView<Value> first() const { return all().front(); }

  explicit StreamGradient(MatrixView<Value> gradient) : one(gradient) {}
  explicit StreamGradient(LaneList<Value> all) : lanes(std::move(all)) {}
};

}  // namespace addnorm
