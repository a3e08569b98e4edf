#pragma once

#include <cstddef>
#include <vector>

#include "addnorm/matrix.h"
#include "addnorm/nn/lane_coefficients.h"

namespace addnorm {

/// The products and norms of a sublayer's mixes, W·N(source). It serves all mixes with the same
/// source: one product multiplies each lane with the weights of all mixes. With a shared hidden
/// layer it computes W·GELU(V·N(source)).
template <typename V>
class LaneHead {
  static_assert(check_value<V>());

 public:
  using Mixes = std::vector<LaneCoefficients<V>*>;
  template <typename T>
  using Lanes = std::vector<MatrixView<T>>;

  /// `hidden` is the shape of V; zeros mean no hidden layer. Source::kLane, with a norm for each
  /// lane, has none.
  ADDNORM_API explicit LaneHead(MixForm::Source source, const MixWeights& hidden = {});

  MixForm::Source source() const { return source_; }
  Parameter<V>& hidden() { return hidden_; }  ///< V, or empty

  /// Computes the numbers of the mixes, a row for each token of the lanes.
  ADDNORM_API void forward(const Mixes& mixes, const Lanes<const V>& lanes);
  /// Adds to the gradients of the mixes' parameters and of the lanes. The arguments must be those
  /// of the last forward.
  ADDNORM_API void backward(const Mixes& mixes, const Lanes<const V>& lanes,
                            const Lanes<V>& d_lanes);

 private:
  void gather_weights(const Mixes& mixes);
  void multiply(const Lanes<const V>& lanes);
  void multiply_backward(const Lanes<const V>& lanes, const Lanes<V>& d_lanes,
                         MatrixView<const V> d_products, MatrixView<const V> d_reciprocals);
  void hide();
  void hide_backward(Matrix<V>& d_products, Matrix<V>& d_reciprocals);
  /// The matrix that multiplies the source.
  Parameter<V>& map() { return hidden_.empty() ? weight_ : hidden_; }
  MatrixView<const V> reciprocals() const { return hidden_.empty() ? reciprocals_ : ones_; }
  bool lane_by_lane() const { return source_ == MixForm::Source::kLane; }
  std::size_t norm_of(std::size_t lane) const { return lane_by_lane() ? lane : 0; }
  V adds_products(std::size_t lane) const;
  template <typename T>
  MatrixView<T> weights_of(MatrixView<T> all, std::size_t lane, std::size_t features) const;
  template <typename T>
  MatrixView<T> products_of(MatrixView<T> all, std::size_t lane);
  template <typename T>
  MixInputs<T> inputs(std::size_t first, MatrixView<T> products, MatrixView<T> reciprocals) const;

  MixForm::Source source_;
  Parameter<V> weight_;     // the weights of all mixes, one below the other
  Parameter<V> hidden_;     // V
  Matrix<V> products_;      // a row for each token: weight_·x, for Source::kLane of each lane
  Matrix<V> reciprocals_;   // 1/√(mean of squares + ε) of each token or of each of its lanes
  Matrix<V> sums_, units_;  // V·N(source), and its GELU
  Matrix<V> ones_;          // the units' reciprocals: units are not normalized
};

}  // namespace addnorm
