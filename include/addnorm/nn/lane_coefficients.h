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

/// What the numbers of a mix may be made of, and where the gradients of that go. All matrices have
/// one row for each token. Absent: not there, or not wanted.
template <typename V>
struct MixSource {
  std::vector<MatrixView<V>> lanes = {};     ///< of kStream and kLane
  std::vector<MatrixView<V>> previous = {};  ///< of kPrevious
};

/// What the numbers of a mix are for: it says which lane MixForm::Source::kLane means.
enum class MixUse { kRead, kCarry, kWrite };

/// A mix has to × from numbers, of lanes with so many features.
struct MixShape {
  std::size_t to = 1, from = 1, features = 1;
};
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
  std::vector<double> read;   ///< n
  std::vector<double> carry;  ///< n′·n
  std::vector<double> write;  ///< n′
};
ADDNORM_API InitialMixes initial_mixes(const Placement& placement, const Place& place);

/// The to × from numbers of one mix (MixForm), with their parameters and their backward: the
/// learned numbers of `base` and, where there is a source, `weight` and `scale`. In float or
/// double.
template <typename V>
class LaneCoefficients {
 public:
  ADDNORM_API LaneCoefficients(const MixForm& form, MixUse use, const Place& place,
                               const MixShape& shape);
  ADDNORM_API ~LaneCoefficients();
  ADDNORM_API LaneCoefficients(LaneCoefficients&&) noexcept;
  LaneCoefficients& operator=(LaneCoefficients&&) = delete;

  /// Makes the numbers of each row.
  ADDNORM_API void forward(const MixSource<const V>& source);
  /// to·from numbers: of one row where they are the same for all tokens.
  MatrixView<const V> numbers() const { return numbers_; }
  /// Where the gradients of the numbers are to be added, after forward; zero at first.
  MatrixView<V> d_numbers() { return d_numbers_; }
  /// Adds to the parameters' gradients, and to those of the source.
  ADDNORM_API void backward(const MixSource<const V>& source, const MixSource<V>& gradients);

  ADDNORM_API void list_parameters(const std::string& prefix, ParameterList<V>& list);

 private:
  /// A matrix that numbers are projected from, the rows of `weight` and of `raw_` that belong to
  /// it.
  struct Part {
    MatrixView<const V> values;
    MatrixView<V> gradient;            // absent: not wanted
    std::size_t first_column = 0;      // of weight
    std::size_t first = 0, count = 0;  // of the columns of raw_
    std::size_t norm = 0;              // column of reciprocals_
  };
  std::vector<Part> parts(const MixSource<const V>& source, const MixSource<V>& gradients) const;
  std::size_t raw_index(std::size_t logit) const;
  std::size_t width() const;
  bool is_made() const { return form_.source != MixForm::Source::kNone; }
  V scale() const { return scale_.empty() ? V{1} : scale_.value(0, 0); }
  /// The column of reciprocals_ that a column of raw_ is multiplied with.
  std::size_t norm_of(std::size_t raw) const { return raw / (raw_.cols() / reciprocals_.cols()); }
  void find_logits(std::size_t r, std::span<V> logits) const;

  MixForm form_;
  MixUse use_;
  MixShape shape_;
  std::unique_ptr<nn::MixMap<V>> map_;
  std::vector<V> constants_;          // every logit's base at the start
  std::vector<std::size_t> learned_;  // which ones of them are learned
  Parameter<V> base_;                 // those, or empty
  Parameter<V> scale_;                // 1 × 1, or empty: 1
  Parameter<V> weight_;               // rows of raw numbers × features that each is projected from

  Matrix<V> raw_;          // rows × logits: products with the weights, before the norm's division
  Matrix<V> reciprocals_;  // rows × 1, or × lanes: 1/√(mean of squares + ε)
  Matrix<V> numbers_, d_numbers_;
};

}  // namespace addnorm
