#include "nn/linear.h"

#include "gemm/gemm.h"
#include "kernels/check.h"
#include "kernels/column_sums.h"

namespace addnorm {

template <typename T>
Linear<T>::Linear(std::size_t in, std::size_t out, Bias bias)
    : weight_(out, in, ParameterRole::kWeight) {
  if (bias == Bias::kYes) bias_ = Parameter<T>(1, out, ParameterRole::kBias);
}

template <typename T>
void Linear<T>::forward(MatrixView<const T> x, MatrixView<T> y) const {
  check_shape("linear", "y", y, x.rows, weight_.value.rows());
  gemm<T>({.a = x,
           .b = weight_.value,
           .transpose_b = Transpose::kYes,
           .c = y,
           .bias = bias_.value.flat()});
}

template <typename T>
void Linear<T>::backward(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx,
                         GradientMode mode) {
  check_shape("linear", "dy", dy, x.rows, weight_.value.rows());
  if (!dx.empty()) {
    gemm<T>({.a = dy,
             .b = weight_.value,
             .c = dx,
             .beta = T(mode == GradientMode::kAccumulate ? 1 : 0)});
  }
  gemm<T>({.a = dy, .transpose_a = Transpose::kYes, .b = x, .c = weight_.gradient, .beta = 1});
  if (!bias_.empty()) {
    add_column_sums<T>(dy.rows, dy.cols, bias_.gradient.flat(),
                       [&](std::size_t r, std::size_t i) { return dy(r, i); });
  }
}

template <typename T>
void Linear<T>::list_parameters(const std::string& prefix, ParameterList<T>& list) {
  list_parameter(list, prefix + ".weight", weight_);
  list_parameter(list, prefix + ".bias", bias_);
}

template class Linear<float>;
template class Linear<double>;

}  // namespace addnorm
