#pragma once

/// The division of a row among the threads of an NVIDIA GPU. It depends only on the number of
/// features and on whether the GPU has clusters. So a row has the same bits in any batch, and on
/// all GPUs with clusters, and on all without.

#include <cstddef>

namespace addnorm::kernels::cuda {

inline constexpr int kVector = 8;       ///< values that a thread takes at once
inline constexpr int kMostBlocks = 16;  ///< of a cluster, on Hopper and Blackwell

/// The properties of a GPU that plans and launches depend on.
struct Device {
  bool clusters = true;                   ///< compute capability 9.0 or above
  std::size_t shared_memory = 227 << 10;  ///< most bytes of a block
};

/// The size of a kernel's blocks, and the number that a multiprocessor can run.
struct KernelShape {
  int row_threads;    ///< most threads of a block that has one row
  int block_threads;  ///< threads of a block that has several rows
  int chunks;         ///< most chunks of a thread
  int blocks[2];      ///< that fit a multiprocessor, for a stream of 16 bits and of 32
};
inline constexpr KernelShape kForward{512, 256, 4, {2, 2}};
inline constexpr KernelShape kBackward{256, 256, 2, {2, 2}};
inline constexpr KernelShape kLanesForward{256, 256, 1, {2, 2}};
inline constexpr KernelShape kLanesBackward{256, 256, 1, {2, 1}};
// Wider blocks for GPUs without clusters, where a block must hold a whole row. Their kernels read
// rows directly, because shared memory does not hold two wide rows.
inline constexpr KernelShape kDirectBackward{512, 256, 4, {1, 1}};
inline constexpr KernelShape kDirectLanes{1024, 256, 1, {1, 1}};
// Workspaces have the size for the first number of blocks.
static_assert(kBackward.blocks[1] <= kBackward.blocks[0]);
static_assert(kLanesBackward.blocks[1] <= kLanesBackward.blocks[0]);
template <typename S>
inline constexpr int kOfType = sizeof(S) == 2 ? 0 : 1;

inline constexpr std::size_t kMostFeatures =
    std::size_t{kVector} * kBackward.row_threads * kBackward.chunks * kMostBlocks;
static_assert(kMostFeatures == 65536);
inline constexpr std::size_t kMostLaneFeatures = 16384;  // clusters of 8 blocks

inline constexpr std::size_t kMostFeaturesOfBlock =
    std::size_t{kVector} * kDirectBackward.row_threads * kDirectBackward.chunks;
inline constexpr std::size_t kMostLaneFeaturesOfBlock =
    std::size_t{kVector} * kDirectLanes.row_threads * kDirectLanes.chunks;
static_assert(kMostFeaturesOfBlock == 16384 && kMostLaneFeaturesOfBlock == 8192);
static_assert(kVector * kForward.row_threads * kForward.chunks == kMostFeaturesOfBlock);

/// A row belongs to `blocks` blocks, each with `threads` threads for it. Each thread takes `chunks`
/// times kVector neighbouring values.
struct RowPlan {
  int chunks = 1;
  int threads = 1;  ///< a power of two up to 32, or a multiple of 32
  int rows = 1;     ///< that a block computes together
  int blocks = 1;   ///< size of the cluster; more than 1 only if rows = 1
};

/// Returns the plan for a row: a warp or a part of it, with the chunks that it needs. If the most
/// chunks of the shape are too few, the row gets more warps, and then more blocks.
RowPlan plan_rows(std::size_t features, const KernelShape& shape);

/// Returns the plan of backward, or of either direction of lanes. Without clusters, rows that one
/// block of `shape` cannot hold have the plan of `direct`.
RowPlan plan_rows(std::size_t features, const KernelShape& shape, const KernelShape& direct,
                  bool clusters);
/// Whether a plan needs the kernels of wider blocks.
inline bool is_wider(const RowPlan& plan, const KernelShape& shape) {
  return plan.chunks > shape.chunks || plan.threads > shape.row_threads;
}

/// How many blocks (or clusters) go over the rows in strides, where each first sums the gradients
/// of parameters over its rows: as many as an H100 holds, of `resident` blocks on a multiprocessor,
/// or without clusters as many as an A100 holds. It depends on the shape, the types and `clusters`
/// alone, so gradients have the same bits on all GPUs with clusters, and on all without.
std::size_t striding_blocks(const RowPlan& plan, std::size_t rows, int resident,
                            bool clusters = true);
/// The same for a kernel of `shape`; a wider plan has the number of blocks of `direct`.
std::size_t striding_blocks(const RowPlan& plan, std::size_t rows, const KernelShape& shape,
                            const KernelShape& direct, int of_type, bool clusters);

}  // namespace addnorm::kernels::cuda
