#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "addnorm/nn/lane_site.h"
#include "addnorm/nn/norm.h"
#include "addnorm/nn/placement.h"
#include "addnorm/nn/residual_stream.h"

namespace addnorm {

/// The beginning and the end of a residual stream: X_0 = u ⊗ x, whose first lane may go through a
/// norm, and z = c·R(X). A stream of one lane begins as x or norm(x), and z is the stream itself.
template <typename T>
class StreamEnds {
  static_assert(check_module<T>());

 public:
  using Value = Arithmetic<T>;

  /// For a stack with these placements, one for each layer; `lanes` is as in BlockOptions.
  ADDNORM_API StreamEnds(const std::vector<BlockPlacement>& placements, std::size_t lanes,
                         std::size_t d_model, const NormOptions& norm, Affine affine);

  std::size_t lanes() const { return lanes_; }  ///< at the beginning of the stack
  bool has_lanes() const { return exit_.has_value(); }
  std::optional<LaneSite<T>>& exit() { return exit_; }  ///< present if there are several lanes

  /// Returns X_0. x must keep its values until enter_backward.
  ADDNORM_API ResidualStream<T> enter(MatrixView<const Value> x, const Pass<T>& pass);
  /// Returns z, which stays valid until the next leave.
  ADDNORM_API MatrixView<const Value> leave(ResidualStream<T>& stream, const Pass<T>& pass);
  /// Returns the gradient of the stream from dz. With one lane it is dz's memory.
  ADDNORM_API StreamGradient<T> leave_backward(MatrixView<Value> dz, const Pass<T>& pass);
  /// Computes dx from the gradient of X_0.
  ADDNORM_API void enter_backward(const StreamGradient<T>& gradient, MatrixView<Value> dx,
                                  const Pass<T>& pass);

  ADDNORM_API void list_entry_parameters(const std::string& prefix, ParameterList<Value>& list);
  ADDNORM_API void list_exit_parameters(const std::string& prefix, ParameterList<Value>& list);

 private:
  bool splits() const { return has_lanes() && form_.splits_features; }

  LaneForm form_;  // of the first sublayer
  std::size_t lanes_;
  std::optional<Norm<T>> entry_;
  std::optional<LaneSite<T>> exit_;
  MatrixView<const Value> x_;
  Matrix<Value> entered_, d_lanes_;
};

}  // namespace addnorm
