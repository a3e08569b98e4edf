#include "kernels/block_sums.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/dispatch.h"
#include "kernels/storages.h"

namespace addnorm::kernels {

/// Adds the values begin … end − 1.
ADDNORM_DECLARE_KERNEL(template <typename V>
                       void add(const BlockSums<V>&, std::size_t begin, std::size_t end);)

RowBlocks::RowBlocks(std::size_t all_rows, std::size_t cols) {
  constexpr std::size_t kMost = 64;
  // A block has enough rows for 8192 values, but at least 16 and at most 128. With smaller blocks
  // much of the time would go into moving sums between the caches of cores. Longer blocks would
  // lose digits.
  const std::size_t enough =
      std::clamp<std::size_t>(8192 / std::max<std::size_t>(1, cols), 16, 128);
  const std::size_t least = std::max((all_rows + kMost - 1) / kMost, enough);
  rows = (least + kRowGroup - 1) / kRowGroup * kRowGroup;
  count = (all_rows + rows - 1) / rows;
}

template <typename V>
void add_block_sums(const V* block_sums, std::size_t blocks, V factor, GradientMode mode,
                    std::span<V> gradient) {
  constexpr std::size_t kGrain = 16384;  // the smallest work of one thread, in values
  const BlockSums<V> job{block_sums, blocks, factor, mode, gradient};
  const auto kernel = ADDNORM_KERNEL(V, add<V>);
  parallel_ranges(gradient.size(), 1 + kGrain / (blocks + 1), 16,
                  [&](std::size_t begin, std::size_t end) { kernel(job, begin, end); });
}
template void add_block_sums(const float*, std::size_t, float, GradientMode, std::span<float>);
template void add_block_sums(const double*, std::size_t, double, GradientMode, std::span<double>);

}  // namespace addnorm::kernels
