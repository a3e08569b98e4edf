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

/// What the numbers of a mix are for: it says which lane MixForm::Source::kLane means.
enum class MixUse { kRead, kCarry, kWrite };

/// A mix has to × from numbers, of lanes with so many features.
struct MixShape {
  std::size_t to = 1, from = 1, features = 1;
  std::size_t hidden = 0;  ///< units between the source and the weights; 0: there is no layer
};
/// How many values a token's source has.
ADDNORM_API std::size_t source_width(MixForm::Source source, const Place& place,
                                     std::size_t features);
/// Rows and columns of its weights; none where the numbers are not made of anything.
struct MixWeights {
  std::size_t rows = 0, cols = 0;
};
ADDNORM_API MixWeights mix_weights(const MixForm& form, MixUse use, const Place& place,
                                   const MixShape& shape);

/// The numbers of a mix at the start, where the weights are 0: map(base).
ADDNORM_API std::vector<double> initial_numbers(const MixForm& form, const Place& place,
                                                std::size_t to, std::size_t from);

/// What a sublayer reads and leaves at the start, of n lanes: z = read·X and X′ = carry·X +
/// write·f, whatever it is that it computes by.
struct InitialMixes {
  std::size_t lanes = 1, lanes_after = 1;
  std::vector<double> read;   ///< n, for each mix that it reads
  std::vector<double> carry;  ///< n′·n
  std::vector<double> write;  ///< n′
};
ADDNORM_API InitialMixes initial_mixes(const Placement& placement, const Place& place);

/// What a mix is made of: its columns of a LaneHead's products, and the reciprocal norms that they
/// are multiplied with. In backward, the gradients of both.
template <typename V>
struct MixInputs {
  MatrixView<V> products;     ///< a row for each token; absent: the mix is made of nothing
  MatrixView<V> reciprocals;  ///< 1/√(mean of squares + ε) of each token, or of each of its lanes
  std::size_t first = 0;      ///< column of the products
  std::size_t lane_step = 0;  ///< of Source::kLane: columns from a lane's products to the next's
};

/// The to × from numbers of one mix (MixForm), with their parameters and their backward: the
/// learned numbers of `base` and, where there is a source, `weight` and `scale`. In float or
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
  /// The weights that the source is multiplied with, a row for each product.
  Parameter<V>& weight() { return weight_; }

  /// Makes the numbers of each row.
  ADDNORM_API void forward(const MixInputs<const V>& inputs);
  /// to·from numbers: of one row where they are the same for all tokens.
  MatrixView<const V> numbers() const { return numbers_; }
  /// Where the gradients of the numbers are to be added, after forward; zero at first.
  MatrixView<V> d_numbers() { return d_numbers_; }
  /// Adds to the gradients of base and scale, and to those of the reciprocals; sets the gradients
  /// of its products.
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
  std::vector<V> constants_;          // every logit's base at the start
  std::vector<std::size_t> learned_;  // which ones of them are learned
  Parameter<V> base_;                 // those, or empty
  Parameter<V> scale_;                // 1 × 1, or empty: 1
  Parameter<V> weight_;
  Matrix<V> numbers_, d_numbers_;
};

}  // namespace addnorm
