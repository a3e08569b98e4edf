#include "kernels/simd/pack.h"
#include "kernels/simd/parts.h"

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
void fill_block_sums(KernelTable& table) {
  for_each_type([&]<typename V>() { std::get<AddBlocks<V>>(table.block_sums) = &add<V>; });
}

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
