#include "kernels/block_sums.h"

#include "kernels/simd/pack.h"

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
#define ADDNORM_INSTANTIATE(V) \
  template void add(const BlockSums<V>&, std::size_t begin, std::size_t end);
ADDNORM_FOR_TYPES(ADDNORM_INSTANTIATE)
#undef ADDNORM_INSTANTIATE

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
