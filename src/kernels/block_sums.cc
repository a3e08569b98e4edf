#include "kernels/block_sums.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/dispatch.h"

#ifndef ADDNORM_KERNELS_BLOCK_SUMS_CC
#define ADDNORM_KERNELS_BLOCK_SUMS_CC
namespace addnorm::kernels {

template <typename V>
struct BlockSums {
  const V* sums;
  std::size_t blocks;
  V factor;
  GradientMode mode;
  std::span<V> gradient;
};

}  // namespace addnorm::kernels
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/block_sums.cc"
#include <hwy/foreach_target.h>
//
#include "kernels/pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

/// Adds the values begin … end − 1.
template <typename V>
void add(const BlockSums<V>& job, std::size_t begin, std::size_t end) {
  for_each_pack(end - begin, [&](std::size_t at, auto count) ADDNORM_BODY {
    const std::size_t i = begin + at;
    Pack<V> total = set(V{0});
    for (std::size_t b = 0; b < job.blocks; ++b) {
      total = total + load(job.sums + b * job.gradient.size() + i, count);
    }
    total = total * set(job.factor);
    V* const to = job.gradient.data() + i;
    if (job.mode == GradientMode::kAccumulate) total = load(to, count) + total;
    store(total, to, count);
  });
}
void add_floats(const BlockSums<float>& job, std::size_t begin, std::size_t end) {
  add(job, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace addnorm::kernels {
namespace {

HWY_EXPORT(add_floats);

}  // namespace

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
  parallel_ranges(gradient.size(), 1 + kGrain / (blocks + 1), 16,
                  [&](std::size_t begin, std::size_t end) {
                    if constexpr (std::is_same_v<V, float>) {
                      ADDNORM_DISPATCH(add_floats)(job, begin, end);
                    } else {
                      HWY_STATIC_DISPATCH(add)<V>(job, begin, end);
                    }
                  });
}
template void add_block_sums(const float*, std::size_t, float, GradientMode, std::span<float>);
template void add_block_sums(const double*, std::size_t, double, GradientMode, std::span<double>);

}  // namespace addnorm::kernels
#endif  // HWY_ONCE
