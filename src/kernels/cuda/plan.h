#pragma once

/// How a row is divided among the threads of an NVIDIA GPU. It depends on the features alone, so a
/// row has the same bits in any batch, and on any GPU.

#include <cstddef>

namespace addnorm::kernels::cuda {

inline constexpr int kVector = 8;       ///< values that a thread takes at once
inline constexpr int kMostBlocks = 16;  ///< of a cluster: what Hopper and Blackwell have

/// How a kernel uses a multiprocessor.
struct KernelShape {
  int row_threads;    ///< of a block that has one row, at most
  int block_threads;  ///< of a block that has several
  int chunks;         ///< of a thread, at most
  int blocks[2];      ///< that there is room for, of a stream of 16 bits, and of 32
};
inline constexpr KernelShape kForward{512, 256, 4, {2, 2}};
inline constexpr KernelShape kBackward{256, 256, 2, {2, 2}};
inline constexpr KernelShape kLanesForward{256, 256, 1, {2, 2}};
inline constexpr KernelShape kLanesBackward{256, 256, 1, {2, 1}};
// Workspaces are as large as the first needs.
static_assert(kBackward.blocks[1] <= kBackward.blocks[0]);
static_assert(kLanesBackward.blocks[1] <= kLanesBackward.blocks[0]);
template <typename S>
inline constexpr int kOfType = sizeof(S) == 2 ? 0 : 1;

inline constexpr std::size_t kMostFeatures =
    std::size_t{kVector} * kBackward.row_threads * kBackward.chunks * kMostBlocks;
static_assert(kMostFeatures == 65536);
inline constexpr std::size_t kMostLaneFeatures = 16384;  // clusters of 8

/// A row belongs to `blocks` blocks, each with `threads` threads for it, each of which takes
/// `chunks` times kVector neighbouring values.
struct RowPlan {
  int chunks = 1;
  int threads = 1;  ///< a power of two up to 32, or a multiple of 32
  int rows = 1;     ///< that a block works on at once
  int blocks = 1;   ///< a cluster of so many; more than one only where rows = 1
};

/// A warp or a part of it, with as many chunks as that takes; where the shape's chunks do not
/// suffice, as many warps, and then blocks, as they need.
RowPlan plan_rows(std::size_t features, const KernelShape& shape);

/// How many blocks (or clusters) go over the rows in strides, where each first sums the gradients
/// of parameters over its rows: as many as an H100 holds, of `resident` blocks on a multiprocessor.
/// It depends on the shape and the types alone, so gradients have the same bits on every GPU.
std::size_t striding_blocks(const RowPlan& plan, std::size_t rows, int resident);

}  // namespace addnorm::kernels::cuda
