#include "kernels/softmax.h"

#include <algorithm>
#include <limits>

#include "kernels/check.h"
#include "kernels/kernel_table.h"

namespace addnorm::kernels {
namespace {

template <typename T>
const SoftmaxKernels<T>& softmax_kernels() {
  return std::get<SoftmaxKernels<T>>(kernels_of<T>().softmax);
}

}  // namespace

template <typename T>
void softmax_row(const SoftmaxRow<T>& row) {
  softmax_kernels<T>().softmax(row);
}
template <typename T>
void softmax_row_backward(std::span<const T> p, std::span<T> dp) {
  softmax_kernels<T>().gradient(p.data(), p.size(), dp.data());
}
template <typename T>
SoftmaxSum<T> softmax_terms(std::span<const T> x, std::span<T> terms) {
  check_optional_length("softmax_terms", "terms", terms, x.size());
  return softmax_kernels<T>().terms(x.data(), x.size(), terms.data());
}

#define ADDNORM_INSTANTIATE(T)                                          \
  template void softmax_row(const SoftmaxRow<T>&);                      \
  template void softmax_row_backward(std::span<const T>, std::span<T>); \
  template SoftmaxSum<T> softmax_terms(std::span<const T>, std::span<T>);
ADDNORM_INSTANTIATE(float)
ADDNORM_INSTANTIATE(double)
#undef ADDNORM_INSTANTIATE

}  // namespace addnorm::kernels
