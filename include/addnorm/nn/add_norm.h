#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "addnorm/nn/norm.h"
#include "addnorm/nn/placement.h"
#include "addnorm/nn/residual_stream.h"

namespace addnorm {

/// The sizes and norms of one Add & Norm, and where in the stack it stands.
struct AddNormOptions {
  std::size_t d_model = 0;
  NormOptions norm = {};  ///< of every norm in it
  Affine affine = Affine::kGammaBeta;
  double dropout = 0;  ///< probability, on the branch
  Depth depth = {};    ///< for factors, and for dropout's place: each layer needs its own
  SublayerKind sublayer = SublayerKind::kAttention;  ///< for probes, and for dropout's place
};

/// Add & Norm around one sublayer F, in the five slots of a Placement:
///
///     h = before(x);  f = inside(F(h));  s = skip ⊙ x + gain ⊙ dropout(f);  y = after(s)
///
/// Holds what its backward needs but x itself, which must keep its values until then; a forward and
/// its backward follow each other.
template <typename T>
class AddNorm {
 public:
  using Value = Arithmetic<T>;

  ADDNORM_API AddNorm(const Placement& placement, const AddNormOptions& options);

  /// The stream goes in as x and comes out as y.
  ADDNORM_API void forward(ResidualStream<T>& stream, Sublayer<T>& branch, const Pass<T>& pass);
  /// `gradient` goes in as that of y and comes out as that of x.
  ADDNORM_API void backward(MatrixView<Value> gradient, Sublayer<T>& branch, const Pass<T>& pass);

  ADDNORM_API void list_parameters(const std::string& prefix, ParameterList<Value>& list);
  Parameter<Value>& skip() { return skip_; }  ///< empty where skip is not learned

 private:
  MatrixView<const T> branch_input() const;
  MatrixView<const T> branch_output() const { return inside_ ? f_.view() : branch_.view(); }
  Scale<Value> scale(const ResidualFactor& factor, const Parameter<Value>& learned) const;
  ResidualAdd<Value, T> residual(const Pass<T>& pass) const;
  MatrixView<T> residual_backward(MatrixView<Value> d_sum, const Pass<T>& pass);
  void resize(std::size_t rows);
  void observe(const Pass<T>& pass) const;
  template <typename V>
  void observe_gradient(Point point, MatrixView<V> gradient, const Pass<T>& pass) const;
  Site site(Point point, NormSlot norm = NormSlot::kNone) const;

  Placement placement_;
  AddNormOptions options_;
  std::optional<Norm<T, Value, T>> before_;
  std::optional<Norm<T, T>> inside_;
  std::optional<Norm<T>> after_;
  Parameter<Value> skip_, gain_;  // empty where the factor is a constant

  MatrixView<const Value> x_;
  Matrix<T> h_, branch_, f_;  // without `before`, h is x where T cannot read that itself
  Matrix<Value> sum_, y_;
};

}  // namespace addnorm
