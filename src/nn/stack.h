#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "nn/block.h"

namespace addnorm {

/// Whether a stack ends with a norm: as the last sublayer's placement says, or not.
enum class FinalNorm { kAsPlacement, kNo, kYes };

/// Blocks one after the other and a final norm. With a causal mask in the pass this is the body of
/// a decoder, without one it is an encoder.
template <typename T>
class Stack {
 public:
  /// One block for each entry of `placements`.
  Stack(const BlockOptions& options, const std::vector<BlockPlacement>& placements,
        FinalNorm final_norm = FinalNorm::kAsPlacement);

  /// y = stack(x), rows × d_model each. x must keep its values until backward, which reads them.
  void forward(MatrixView<const T> x, MatrixView<T> y, const Pass<T>& pass);
  /// `gradient` goes in as that of y and comes out as that of x.
  void backward(MatrixView<T> gradient, const Pass<T>& pass);

  void list_parameters(const std::string& prefix, ParameterList<T>& list);
  std::vector<Block<T>>& blocks() { return blocks_; }

 private:
  std::vector<Block<T>> blocks_;
  std::optional<Norm<T>> final_norm_;
  MatrixView<const T> last_;  // what the final norm has normalized
};

template <typename T>
using Encoder = Stack<T>;

}  // namespace addnorm
