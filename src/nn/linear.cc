#include "addnorm/nn/linear.h"

#include "base/time_account.h"
#include "gemm/gemm.h"
#include "kernels/check.h"
#include "kernels/column_sums.h"
#include "nn/stored.h"

namespace addnorm {

template <typename T>
Linear<T>::Linear(std::size_t in, std::size_t out, Bias bias)
    : weight_(out, in, ParameterRole::kWeight) {
  if (bias == Bias::kYes) bias_ = Parameter<Value>(1, out, ParameterRole::kBias);
  store_as<T>(weight_);
}

template <typename T>
template <typename Out>
void Linear<T>::forward(MatrixView<const T> x, MatrixView<Out> y) const {
  kernels::check_shape("linear", "y", y, x.rows, weight_.value.rows());
  const ScopedTimer timer(Cost::kProducts);
  gemm::gemm<T, Out>({.a = x,
                      .b = stored<T>(weight_),
                      .transpose_b = gemm::Transpose::kYes,
                      .c = y,
                      .bias = bias_.value.flat()});
}

template <typename T>
void Linear<T>::backward(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx,
                         GradientMode mode) {
  kernels::check_shape("linear", "dy", dy, x.rows, weight_.value.rows());
  const ScopedTimer timer(Cost::kProducts);
  if (!dx.empty()) {
    gemm::gemm<T>({.a = dy,
                   .b = stored<T>(weight_),
                   .c = dx,
                   .beta = Value(mode == GradientMode::kAccumulate ? 1 : 0)});
  }
  gemm::gemm<T, Value>(
      {.a = dy, .transpose_a = gemm::Transpose::kYes, .b = x, .c = weight_.gradient, .beta = 1});
  if (!bias_.empty()) {
    kernels::add_column_sums<Value>(
        dy.rows, dy.cols, bias_.gradient.flat(),
        [&](std::size_t r, std::size_t i) { return static_cast<Value>(dy(r, i)); });
  }
}

template <typename T>
void Linear<T>::list_parameters(const std::string& prefix, ParameterList<Value>& list) {
  list_parameter(list, prefix, "weight", weight_);
  list_parameter(list, prefix, "bias", bias_);
}

template class Linear<float>;
template class Linear<double>;
template class Linear<BFloat16>;
template void Linear<float>::forward(MatrixView<const float>, MatrixView<float>) const;
template void Linear<double>::forward(MatrixView<const double>, MatrixView<double>) const;
template void Linear<BFloat16>::forward(MatrixView<const BFloat16>, MatrixView<BFloat16>) const;
template void Linear<BFloat16>::forward(MatrixView<const BFloat16>, MatrixView<float>) const;

}  // namespace addnorm
