#pragma once

#include <cstddef>

#include "addnorm/norm.h"
#include "kernels/dispatch.h"

namespace addnorm::kernels {

/// The backward of some rows that fit into the thread's memory, around the norm's. `s` are the
/// values that forward normalized. `gradient` is first that of the norm's output, and the norm's
/// backward then replaces it by that of `s`.
template <typename S, typename B>
struct EpilogueChunk {
  using V = Arithmetic<S>;

  const NormOptions& options;
  const AddNormBackward<S, B>& args;
  std::size_t begin, end;  ///< the rows
  V* s;
  V* gradient;
  /// Sums of the gradients of scale and shift over rows of one block, for each sample that has rows
  /// in it: those of sample b begin at b·features. Null: not wanted.
  V* d_scale;
  V* d_shift;
  std::size_t block_begin;  ///< the first row of that block
};

/// Computes s, gradient and, with a gate after the norm, dz.
ADDNORM_DECLARE_KERNEL(template <typename S, typename B>
                       void before_norm_backward(const EpilogueChunk<S, B>&);)
/// Computes dx from gradient and, with a gate before the norm, dz.
ADDNORM_DECLARE_KERNEL(template <typename S, typename B>
                       void after_norm_backward(const EpilogueChunk<S, B>&);)

}  // namespace addnorm::kernels
