#include "kernels/softmax.h"

#include <algorithm>
#include <limits>

#include "kernels/check.h"
#include "kernels/dispatch.h"

namespace addnorm::kernels {

ADDNORM_DECLARE_KERNEL(template <typename T> SoftmaxSum<T> terms(const T* x, std::size_t n,
                                                                 T* terms);)
ADDNORM_DECLARE_KERNEL(template <typename T> void softmax(const SoftmaxRow<T>&);)
ADDNORM_DECLARE_KERNEL(template <typename T>
                       void softmax_gradient(const T* p, std::size_t n, T* dp);)

template <typename T>
void softmax_row(const SoftmaxRow<T>& row) {
  ADDNORM_KERNEL(T, softmax<T>)(row);
}
template <typename T>
void softmax_row_backward(std::span<const T> p, std::span<T> dp) {
  ADDNORM_KERNEL(T, softmax_gradient<T>)(p.data(), p.size(), dp.data());
}
template <typename T>
SoftmaxSum<T> softmax_terms(std::span<const T> x, std::span<T> terms) {
  check_optional_length("softmax_terms", "terms", terms, x.size());
  return ADDNORM_KERNEL(T, terms<T>)(x.data(), x.size(), terms.data());
}

#define ADDNORM_INSTANTIATE(T)                                          \
  template void softmax_row(const SoftmaxRow<T>&);                      \
  template void softmax_row_backward(std::span<const T>, std::span<T>); \
  template SoftmaxSum<T> softmax_terms(std::span<const T>, std::span<T>);
ADDNORM_INSTANTIATE(float)
ADDNORM_INSTANTIATE(double)
#undef ADDNORM_INSTANTIATE

}  // namespace addnorm::kernels
