#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "addnorm/nn/block.h"
#include "addnorm/nn/stream_ends.h"

namespace addnorm {

/// Whether a stack ends with a norm; kAsPlacement follows the last sublayer's placement.
enum class FinalNorm { kAsPlacement, kNo, kYes };

/// A sequence of blocks and a final norm. With a causal mask in the pass it is the body of a
/// decoder, otherwise an encoder.
template <typename T>
class Stack {
  static_assert(check_module<T>());

 public:
  using Value = Arithmetic<T>;

  /// One block for each entry of `placements`.
  ADDNORM_API Stack(const BlockOptions& options, const std::vector<BlockPlacement>& placements,
                    FinalNorm final_norm = FinalNorm::kAsPlacement);

  /// y = stack(x), rows × d_model each. x must keep its values until backward, which reads them.
  ADDNORM_API void forward(MatrixView<const Value> x, MatrixView<T> y, const Pass<T>& pass);
  /// Computes the gradient of x from that of y; dx may be dy.
  ADDNORM_API void backward(MatrixView<const T> dy, MatrixView<Value> dx, const Pass<T>& pass);

  ADDNORM_API void list_parameters(const std::string& prefix, ParameterList<Value>& list);
  std::vector<Block<T>>& blocks() { return blocks_; }
  StreamEnds<T>& ends() { return ends_; }
  std::optional<Norm<T, Value, T>>& final_norm() { return final_norm_; }

 private:
  /// The site of the read of several lanes at the end.
  Site end_site() const { return {blocks_.size(), SublayerKind::kFinalNorm, Point::kX}; }

  StreamEnds<T> ends_;
  std::vector<Block<T>> blocks_;
  std::optional<Norm<T, Value, T>> final_norm_;
  MatrixView<const Value> last_;  // the values that the final norm normalized
};

template <typename T>
using Encoder = Stack<T>;

}  // namespace addnorm
