#pragma once

#include <cstddef>
#include <string>

#include "addnorm/nn/placement.h"
#include "addnorm/nn/residual_scale.h"
#include "addnorm/nn/residual_stream.h"

namespace addnorm {

/// The gradients of a write: du, and skip ⊙ residual, the part of dx that does not go through F.
template <typename T>
struct WriteGradients {
  static_assert(check_module<T>());
  using Value = Arithmetic<T>;

  MatrixView<const T> du = {};            ///< may be in dx's memory
  MatrixView<const Value> residual = {};  ///< absent: 0; may be in dx's memory
  Scale<Value> skip = {};
  MatrixView<Value> dx = {};  ///< receives the complete gradient of x
};

/// A sublayer's access to the residual stream. read() returns the sublayer's input x. write()
/// replaces the stream by s, computed from the update u and from x or the stream's lanes.
template <typename T>
class StreamSite {
  static_assert(check_module<T>());

 public:
  using Value = Arithmetic<T>;

  virtual ~StreamSite() = default;

  virtual std::size_t reads() const { return 1; }  ///< number of mixes in x

  /// Returns x; its sum may be pending. Several mixes are stacked by rows.
  virtual ResidualStream<T>& read(ResidualStream<T>& stream, const Pass<T>& pass) = 0;
  /// Replaces the stream by s. `dropout` is applied to u.
  virtual void write(ResidualStream<T>& stream, MatrixView<const T> u, const Dropout& dropout) = 0;

  /// Computes du from the gradient of s. With several lanes, `gradient` keeps only the part that
  /// does not go through x.
  virtual WriteGradients<T> write_backward(StreamGradient<T>& gradient, const Pass<T>& pass) = 0;
  /// Adds the backward of the read to `gradient`; dx is the completed WriteGradients::dx.
  virtual void read_backward(StreamGradient<T>& gradient, MatrixView<const Value> dx,
                             const Pass<T>& pass) = 0;

  virtual void list_parameters(const std::string& prefix, ParameterList<Value>& list) = 0;

  /// The lanes of s after the last write. The sum may be pending in the stream.
  const LaneList<const Value>& sums() const { return sums_; }

 protected:
  LaneList<const Value> sums_;
};

/// The site of a stream of one lane: x is the stream, and s = skip ⊙ x + gain ⊙ dropout(u).
template <typename T>
class OneLaneSite final : public StreamSite<T> {
  static_assert(check_module<T>());

 public:
  using Value = Arithmetic<T>;

  OneLaneSite(const Placement& placement, Depth depth, std::size_t d_model)
      : skip_(placement.skip, depth, d_model), gain_(placement.gain, depth, d_model) {}

  Parameter<Value>& skip() { return skip_.learned(); }  ///< empty unless skip is learned

  ResidualStream<T>& read(ResidualStream<T>& stream, const Pass<T>&) override { return stream; }
  ADDNORM_API void write(ResidualStream<T>& stream, MatrixView<const T> u,
                         const Dropout& dropout) override;
  ADDNORM_API WriteGradients<T> write_backward(StreamGradient<T>& gradient,
                                               const Pass<T>& pass) override;
  void read_backward(StreamGradient<T>&, MatrixView<const Value>, const Pass<T>&) override {}
  ADDNORM_API void list_parameters(const std::string& prefix, ParameterList<Value>& list) override;

 private:
  ResidualScale<Value> skip_, gain_;
  ResidualAdd<Value, T> add_;  // of the last write
  Matrix<Value> sum_;
};

}  // namespace addnorm
