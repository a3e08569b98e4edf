#pragma once

#include <cstddef>
#include <span>

#include "addnorm/norm.h"

namespace addnorm::kernels {

/// How rows are divided into blocks over which a thread sums the gradients of γ and β. Each block
/// has a place of its own in the workspace, and the blocks are added in order: the same bits for
/// any number of threads.
struct RowBlocks {
  std::size_t rows;   ///< of a block; the last one may have fewer
  std::size_t count;  ///< of blocks

  RowBlocks(std::size_t all_rows, std::size_t cols);
};

/// gradient (+)= factor·Σ over `blocks` of block_sums[b·gradient.size() + i]
template <typename V>
void add_block_sums(const V* block_sums, std::size_t blocks, V factor, GradientMode mode,
                    std::span<V> gradient);

}  // namespace addnorm::kernels
