#include "kernels/convert.h"

#include "base/parallel.h"
#include "kernels/check.h"
#include "kernels/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/convert.cc"
#include <hwy/foreach_target.h>
//
#include "kernels/pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

template <typename From, typename To>
void convert_values(const From* from, To* to, std::size_t n) {
  for_each_pack<kSmallPack<float>>(n, [&](std::size_t i, auto count) ADDNORM_BODY {
    store(load<kSmallPack<float>>(from + i, count), to + i, count);
  });
}
void narrow_values(const float* from, BFloat16* to, std::size_t n) {
  convert_values(from, to, n);
}
void widen_values(const BFloat16* from, float* to, std::size_t n) {
  convert_values(from, to, n);
}

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace addnorm::kernels {
namespace {

HWY_EXPORT(narrow_values);
HWY_EXPORT(widen_values);

template <typename From, typename To, typename Kernel>
void convert_rows(MatrixView<const From> from, MatrixView<To> to, const Kernel& kernel) {
  check_shape("convert", "to", to, from.rows, from.cols);
  parallel_for(from.rows, row_grain(from.cols),
               [&](std::size_t r) { kernel(from.row(r).data(), to.row(r).data(), from.cols); });
}

}  // namespace

template <>
void convert(MatrixView<const float> from, MatrixView<BFloat16> to) {
  convert_rows(from, to, ADDNORM_DISPATCH(narrow_values));
}
template <>
void convert(MatrixView<const BFloat16> from, MatrixView<float> to) {
  convert_rows(from, to, ADDNORM_DISPATCH(widen_values));
}

}  // namespace addnorm::kernels
#endif  // HWY_ONCE
