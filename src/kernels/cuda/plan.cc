#include "kernels/cuda/plan.h"

#include <algorithm>
#include <bit>

namespace addnorm::kernels::cuda {

RowPlan plan_rows(std::size_t features, const KernelShape& shape) {
  constexpr int kWarp = 32;
  const int vectors = static_cast<int>((features + kVector - 1) / kVector);
  RowPlan plan;
  while (plan.chunks < shape.chunks && plan.chunks * kWarp < vectors) plan.chunks *= 2;
  const int threads = (vectors + plan.chunks - 1) / plan.chunks;
  if (threads <= kWarp) {
    plan.threads = static_cast<int>(std::bit_ceil(static_cast<unsigned>(threads)));
  } else {
    while (plan.blocks * shape.row_threads < threads) plan.blocks *= 2;
    const int of_block = (threads + plan.blocks - 1) / plan.blocks;
    plan.threads = (of_block + kWarp - 1) / kWarp * kWarp;
  }
  if (plan.blocks == 1) plan.rows = std::max(1, shape.block_threads / plan.threads);
  return plan;
}

RowPlan plan_rows(std::size_t features, const KernelShape& shape, const KernelShape& direct,
                  bool clusters) {
  const std::size_t of_block = std::size_t{kVector} * shape.row_threads * shape.chunks;
  return plan_rows(features, clusters || features <= of_block ? shape : direct);
}

std::size_t striding_blocks(const RowPlan& plan, std::size_t rows, int resident, bool clusters) {
  // A cluster lies within a group of multiprocessors and need not fill it. These are the
  // multiprocessors that clusters of 4, 8 and 16 blocks can use.
  const std::size_t multiprocessors = !clusters          ? 108
                                      : plan.blocks <= 2 ? 132
                                      : plan.blocks == 4 ? 124
                                      : plan.blocks == 8 ? 120
                                                         : 112;
  const std::size_t most = multiprocessors * static_cast<std::size_t>(resident) / plan.blocks;
  const std::size_t groups = (rows + plan.rows - 1) / static_cast<std::size_t>(plan.rows);
  return std::clamp(groups, std::size_t{1}, most);
}

std::size_t striding_blocks(const RowPlan& plan, std::size_t rows, const KernelShape& shape,
                            const KernelShape& direct, int of_type, bool clusters) {
  const KernelShape& used = is_wider(plan, shape) ? direct : shape;
  return striding_blocks(plan, rows, used.blocks[of_type], clusters);
}

}  // namespace addnorm::kernels::cuda
