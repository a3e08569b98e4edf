#pragma once

#include <cstddef>
#include <span>

#include "addnorm/norm.h"

namespace addnorm::kernels {

/// The division of rows into blocks. One thread sums the gradients of γ and β over a block, in the
/// block's own part of the workspace. The sums of blocks are added in order, so the bits do not
/// depend on the number of threads.
struct RowBlocks {
  std::size_t rows;   ///< of a block; the last block may have fewer
  std::size_t count;  ///< number of blocks

  RowBlocks(std::size_t all_rows, std::size_t cols);
};

/// gradient (+)= factor·Σ over `blocks` of block_sums[b·gradient.size() + i]
template <typename V>
void add_block_sums(const V* block_sums, std::size_t blocks, V factor, GradientMode mode,
                    std::span<V> gradient);

template <typename V>
struct BlockSums {
  const V* sums;
  std::size_t blocks;
  V factor;
  GradientMode mode;
  std::span<V> gradient;
};

}  // namespace addnorm::kernels
