#include "kernels/simd/pack.h"
#include "kernels/simd/parts.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

template <typename From, typename To>
void convert_values(const From* from, To* to, std::size_t n) {
  for_each_pack<kSmallPack<float>>(n, [&](std::size_t i, auto count) ADDNORM_BODY {
    store(load<kSmallPack<float>>(from + i, count), to + i, count);
  });
}
void fill_convert(KernelTable& table) {
  table.convert = {&convert_values<float, BFloat16>, &convert_values<BFloat16, float>};
}

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
