#include "kernels/convert.h"

#include "base/parallel.h"
#include "kernels/check.h"
#include "kernels/dispatch.h"

namespace addnorm::kernels {

ADDNORM_DECLARE_KERNEL(template <typename From, typename To>
                       void convert_values(const From* from, To* to, std::size_t n);)

namespace {

template <typename From, typename To, typename Kernel>
void convert_rows(MatrixView<const From> from, MatrixView<To> to, const Kernel& kernel) {
  check_shape("convert", "to", to, from.rows, from.cols);
  parallel_for(from.rows, row_grain(from.cols),
               [&](std::size_t r) { kernel(from.row(r).data(), to.row(r).data(), from.cols); });
}

}  // namespace

template <>
void convert(MatrixView<const float> from, MatrixView<BFloat16> to) {
  convert_rows(from, to, ADDNORM_KERNEL(float, convert_values<float, BFloat16>));
}
template <>
void convert(MatrixView<const BFloat16> from, MatrixView<float> to) {
  convert_rows(from, to, ADDNORM_KERNEL(float, convert_values<BFloat16, float>));
}

}  // namespace addnorm::kernels
