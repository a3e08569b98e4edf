#include "kernels/convert.h"

#include "kernels/simd/pack.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

template <typename From, typename To>
void convert_values(const From* from, To* to, std::size_t n) {
  for_each_pack<kSmallPack<float>>(n, [&](std::size_t i, auto count) ADDNORM_BODY {
    store(load<kSmallPack<float>>(from + i, count), to + i, count);
  });
}
template void convert_values(const float*, BFloat16*, std::size_t);
template void convert_values(const BFloat16*, float*, std::size_t);

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
