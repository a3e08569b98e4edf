#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "addnorm/lanes.h"
#include "addnorm/nn/lane_coefficients.h"
#include "addnorm/nn/lane_head.h"
#include "addnorm/nn/stream_site.h"

namespace addnorm {

/// The sizes of a sublayer's mixes. A mix that the sublayer does not have is absent.
struct MixShapes {
  std::size_t features = 1;  ///< of a lane
  MixShape read = {};
  std::optional<MixShape> carry = {}, write = {};
  std::size_t hidden = 0;  ///< units of the hidden layer that all mixes share

  ADDNORM_API MixShapes(const LaneForm& form, const Place& place, std::size_t d_model);
};

/// Returns the number of weights of a sublayer's mixes and their hidden layer.
ADDNORM_API std::size_t lane_weights(const LaneForm& form, const Place& place, std::size_t d_model);

/// Returns the form of a stream's exit, which only reads: its c is the form's a.
ADDNORM_API LaneForm exit_form(LaneForm form);

/// The site of a stream of several lanes: x is z = a·R(X), and the stream becomes X′ = A·X + b ⊗ u.
/// With the form's `reads_carried` it reads from A·X instead of X.
template <typename T>
class LaneSite final : public StreamSite<T> {
  static_assert(check_module<T>());

 public:
  using Value = Arithmetic<T>;

  /// `place.lanes` is X's number of lanes.
  ADDNORM_API LaneSite(const LaneForm& form, const Place& place, std::size_t d_model,
                       const NormOptions& norm, Affine affine);

  std::size_t lanes() const { return place_.lanes; }
  std::size_t lanes_after() const { return lanes() + (changes_ == Changes::kAppend); }
  std::size_t reads() const override { return reads_; }

  /// Returns z, which stays valid until the next read.
  ADDNORM_API ResidualStream<T>& read(ResidualStream<T>& stream, const Pass<T>& pass) override;
  ADDNORM_API void write(ResidualStream<T>& stream, MatrixView<const T> u,
                         const Dropout& dropout) override;

  /// Replaces the gradient of X′ by the part of X's gradient that comes through A.
  ADDNORM_API WriteGradients<T> write_backward(StreamGradient<T>& gradient,
                                               const Pass<T>& pass) override;
  /// Adds the parts of X's gradient that come through z and through the sources of the mixes.
  ADDNORM_API void read_backward(StreamGradient<T>& gradient, MatrixView<const Value> dz,
                                 const Pass<T>& pass) override;

  Changes changes() const { return changes_; }
  std::vector<LaneHead<Value>>& heads() { return heads_; }
  /// The numbers of the last read and write: a, with a row for each mix that is read; A; b. They
  /// have one row if all tokens have the same numbers. A and b are absent if the sublayer changes
  /// only the last lane, and b is absent if it appends a lane.
  MatrixView<const Value> read_numbers() const { return read_.numbers(); }
  MatrixView<const Value> carry_numbers() const { return numbers_of(carry_); }
  MatrixView<const Value> write_numbers() const { return numbers_of(write_); }
  /// The lanes that the last read weighted with a: R(X), or those of A·X.
  const LaneList<const Value>& read_from() const { return read_from_; }

  ADDNORM_API void list_parameters(const std::string& prefix, ParameterList<Value>& list) override;

 private:
  static MatrixView<const Value> numbers_of(const std::optional<LaneCoefficients<Value>>& mix) {
    return mix ? mix->numbers() : MatrixView<const Value>();
  }
  template <typename V>
  LaneList<V> parts(MatrixView<V> of_model) const;
  template <typename V>
  LaneList<V> reads_of(MatrixView<V> z) const;
  LanesForward<Value, T> kernel_arguments(MatrixView<const T> u) const;
  void carry(const LaneList<Value>& to) const;
  MatrixView<const T> dropped(MatrixView<const T> u, const Dropout& dropout);
  bool kernel_backward(StreamGradient<T>& gradient, MatrixView<T> du, const Pass<T>& pass);
  void mix_backward(StreamGradient<T>& gradient, MatrixView<T> du, const Pass<T>& pass);
  void carry_backward(StreamGradient<T>& gradient, const Pass<T>& pass);
  std::vector<LaneCoefficients<Value>*> mixes_of(MixForm::Source source);
  LaneList<const Value> lanes_of(MixForm::Source source) const;
  void make_coefficients();
  void coefficients_backward(StreamGradient<T>& gradient);

  LaneForm form_;
  Place place_;
  Changes changes_;
  std::size_t reads_;
  std::size_t features_;  // of a lane
  LaneCoefficients<Value> read_;
  std::optional<LaneCoefficients<Value>> carry_, write_;
  std::vector<LaneHead<Value>> heads_;  // one for each source
  std::optional<Norm<T>> last_lane_;

  LaneList<const Value> x_, previous_;  // the lanes that this sublayer and the previous one read
  LaneList<const Value> read_from_;     // R(X), or A·X
  MatrixView<const T> u_;               // after dropout
  Dropout dropout_;
  Matrix<T> dropped_;
  Matrix<Value> normalized_, carried_, z_, wide_u_, sum_;
  ResidualStream<T> z_stream_{MatrixView<const Value>()};
};

}  // namespace addnorm
