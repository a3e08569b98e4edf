#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "addnorm/nn/lane_site.h"
#include "addnorm/nn/mix_norms.h"
#include "addnorm/nn/norm.h"
#include "addnorm/nn/placement.h"
#include "addnorm/nn/residual_stream.h"
#include "addnorm/nn/stream_site.h"
#include "addnorm/nn/update.h"

namespace addnorm {

/// The sizes and norms of one Add & Norm, and its place in the stack.
struct AddNormOptions {
  std::size_t d_model = 0;
  NormOptions norm = {};  ///< for all its norms
  Affine affine = Affine::kGammaBeta;
  double dropout = 0;  ///< probability, on the branch
  /// The place in the stack, unique to each layer. It selects the placement's factors, if they
  /// depend on depth, and dropout's random numbers.
  Depth depth = {};
  /// The kind of F. It selects dropout's random numbers, and names the place for probes.
  SublayerKind sublayer = SublayerKind::kAttention;
  std::size_t lanes = 1;  ///< number of lanes of the stream that it reads
};

/// Add & Norm around one sublayer F, in the five slots of a Placement:
///
///     h = before(x);  f = inside(F(h));  s = skip ⊙ x + gain ⊙ dropout(u);  y = after(s)
///
/// The update u is f for most placements; otherwise it is computed from f and x. If the stream has
/// several lanes X, then x = a·R(X) and s = A·X + b ⊗ dropout(u) (see Placement), and `after`
/// normalizes the first lane of s. F may read several mixes of the lanes, one for each row of a.
/// Then x and h stack the rows of all mixes, and each mix has its own `before`.
///
/// Keeps what backward needs, except x: the caller must keep x's values until backward. Each
/// backward must follow its forward.
template <typename T>
class AddNorm {
  static_assert(check_module<T>());

 public:
  using Value = Arithmetic<T>;

  ADDNORM_API AddNorm(const Placement& placement, const AddNormOptions& options);

  /// Replaces the stream by y; with several lanes, by s with y as its first lane. The memory of the
  /// old stream is not overwritten.
  ADDNORM_API void forward(ResidualStream<T>& stream, Sublayer<T>& branch, const Pass<T>& pass);
  /// Replaces the gradient of y by the gradient of x.
  ADDNORM_API void backward(StreamGradient<T>& gradient, Sublayer<T>& branch, const Pass<T>& pass);
  void backward(MatrixView<Value> gradient, Sublayer<T>& branch, const Pass<T>& pass) {
    StreamGradient<T> of_one_lane(gradient);
    backward(of_one_lane, branch, pass);
  }

  ADDNORM_API void list_parameters(const std::string& prefix, ParameterList<Value>& list);
  Parameter<Value>& skip() { return one_lane_.skip(); }  ///< empty unless skip is learned
  UpdateStep<T>& update() { return update_; }
  MatrixView<const T> added() const { return u_; }        ///< u of the last forward
  std::optional<LaneSite<T>>& lanes() { return lanes_; }  ///< present if there are several lanes
  /// Returns the number of lanes of the stream after this Add & Norm.
  std::size_t lanes_after() const { return lanes_ ? lanes_->lanes_after() : 1; }

 private:
  StreamSite<T>& stream_site() {
    if (lanes_) return *lanes_;
    return one_lane_;
  }
  MatrixView<const T> branch_output() const { return inside_ ? f_.view() : branch_.view(); }
  Dropout dropout(const Pass<T>& pass) const;
  void resize(std::size_t rows);
  void observe(const Pass<T>& pass);
  template <typename V>
  void observe_gradient(Point point, std::span<const MatrixView<V>> lanes,
                        const Pass<T>& pass) const;
  template <typename V>
  void observe_gradient(Point point, MatrixView<V> gradient, const Pass<T>& pass) const;
  Site site(Point point, NormSlot norm = NormSlot::kNone) const;

  Placement placement_;
  AddNormOptions options_;
  std::optional<MixNorms<T>> before_;
  std::optional<Norm<T, T>> inside_;
  std::optional<Norm<T>> after_;
  OneLaneSite<T> one_lane_;
  UpdateStep<T> update_;
  std::optional<LaneSite<T>> lanes_;  // replaces one_lane_ if there are several lanes

  MatrixView<const Value> x_;  // of the last forward
  MatrixView<const T> input_;  // F's input: h, or x without `before`
  MatrixView<const T> u_;
  Matrix<T> h_, branch_,
      f_;  // without `before`, h_ holds x converted to T, or nothing if x is of T
  Matrix<Value> y_;
};

}  // namespace addnorm
