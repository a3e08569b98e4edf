#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "addnorm/matrix.h"
#include "addnorm/nn/parameter.h"
#include "addnorm/nn/placement.h"

namespace addnorm {

namespace nn {
template <typename V>
class MixMap;
}

/// The use of a mix. It determines the lane that MixForm::Source::kLane means.
enum class MixUse { kRead, kCarry, kWrite };

/// The shape of a mix: to × from numbers, for lanes with `features` features.
struct MixShape {
  std::size_t to = 1, from = 1, features = 1;
  std::size_t hidden = 0;  ///< units of the hidden layer between source and weights; 0: no layer
};
/// Returns the form that applies at this place. It has no source where the numbers do not depend on
/// one. The first sublayer has no lanes before it: in place of Source::kPrevious it reads the first
/// lane.
ADDNORM_API MixForm form_at(MixForm form, const Place& place);
/// Returns the number of values that a token's source has.
ADDNORM_API std::size_t source_width(MixForm::Source source, const Place& place,
                                     std::size_t features);
/// Rows and columns of a mix's weights; 0 if the mix has no source.
struct MixWeights {
  std::size_t rows = 0, cols = 0;
};
ADDNORM_API MixWeights mix_weights(const MixForm& form, MixUse use, const Place& place,
                                   const MixShape& shape);

/// Returns the initial numbers of a mix, where the weights are 0: map(base).
ADDNORM_API std::vector<double> initial_numbers(const MixForm& form, const Place& place,
                                                std::size_t to, std::size_t from);

/// A sublayer's initial mixes for n lanes: z = read·X and X′ = carry·X + write·f. All forms of
/// Changes are expressed by these matrices.
struct InitialMixes {
  std::size_t lanes = 1, lanes_after = 1;
  std::vector<double> read;   ///< n numbers for each mix that it reads
  std::vector<double> carry;  ///< n′·n
  std::vector<double> write;  ///< n′
};
ADDNORM_API InitialMixes initial_mixes(const Placement& placement, const Place& place);

/// The inputs of a mix: its columns of a LaneHead's products, and the reciprocal norms that
/// multiply them. In backward, the gradients of both.
template <typename V>
struct MixInputs {
  MatrixView<V> products;     ///< a row for each token; absent: the mix has no source
  MatrixView<V> reciprocals;  ///< 1/√(mean of squares + ε) of each token, or of each of its lanes
  std::size_t first = 0;      ///< first column of the products
  std::size_t lane_step = 0;  ///< for kLane: columns between the products of two lanes
};

/// The to × from numbers of one mix (MixForm), with their parameters and backward. The parameters
/// are the learned numbers of `base` and, with a source, `weight` and `scale`. For float and
/// double.
template <typename V>
class LaneCoefficients {
  static_assert(check_value<V>());

 public:
  ADDNORM_API LaneCoefficients(const MixForm& form, MixUse use, const Place& place,
                               const MixShape& shape);
  ADDNORM_API ~LaneCoefficients();
  ADDNORM_API LaneCoefficients(LaneCoefficients&&) noexcept;
  LaneCoefficients& operator=(LaneCoefficients&&) = delete;

  MixForm::Source source() const { return form_.source; }
  /// The weights that multiply the source, a row for each product.
  Parameter<V>& weight() { return weight_; }

  /// Computes the numbers of each row.
  ADDNORM_API void forward(const MixInputs<const V>& inputs);
  /// to·from numbers in each row; one row if they are the same for all tokens.
  MatrixView<const V> numbers() const { return numbers_; }
  /// The gradients of the numbers; zero after forward, and later stages add to them.
  MatrixView<V> d_numbers() { return d_numbers_; }
  /// Adds to the gradients of base, scale and the reciprocals, and sets the gradients of the
  /// products.
  ADDNORM_API void backward(const MixInputs<const V>& inputs, const MixInputs<V>& gradients);

  ADDNORM_API void list_parameters(const std::string& prefix, ParameterList<V>& list);

 private:
  bool is_made() const { return form_.source != MixForm::Source::kNone; }
  V scale() const { return scale_.empty() ? V{1} : scale_.value(0, 0); }
  std::size_t lane_of(std::size_t logit) const;
  std::size_t column_of(std::size_t logit, const MixInputs<const V>& inputs) const;
  void find_logits(std::size_t r, const MixInputs<const V>& inputs, std::span<V> logits) const;

  MixForm form_;
  MixUse use_;
  MixShape shape_;
  std::unique_ptr<nn::MixMap<V>> map_;
  std::vector<V> constants_;          // every logit's initial base
  std::vector<std::size_t> learned_;  // indices of the learned ones
  Parameter<V> base_;                 // the learned ones, or empty
  Parameter<V> scale_;                // 1 × 1, or empty: 1
  Parameter<V> weight_;
  Matrix<V> numbers_, d_numbers_;
};

}  // namespace addnorm
