#include "addnorm/nn/linear.h"

#include "base/time_account.h"
#include "gemm/gemm.h"
#include "kernels/check.h"
#include "kernels/column_sums.h"
#include "nn/stored.h"

namespace addnorm {
namespace {

/// Returns one part, a matrix of `out` rows.
template <typename V>
MatrixView<V> part_of(MatrixView<V> all, std::size_t part, std::size_t out) {
  return all.block(part * out, 0, out, all.cols);
}
template <typename V>
std::span<V> part_of(std::span<V> all, std::size_t part, std::size_t out) {
  return all.empty() ? all : all.subspan(part * out, out);
}

}  // namespace

template <typename T>
Linear<T>::Linear(std::size_t in, std::size_t out, Bias bias, std::size_t parts)
    : out_(out), weight_(parts * out, in, ParameterRole::kWeight) {
  if (bias == Bias::kYes) bias_ = Parameter<Value>(1, parts * out, ParameterRole::kBias);
  store_as<T>(weight_);
}

template <typename T>
template <typename Out>
void Linear<T>::forward(MatrixView<const T> x, MatrixView<Out> y, std::size_t part) const {
  kernels::check_shape("linear", "y", y, x.rows, out_);
  const ScopedTimer timer(Cost::kProducts);
  gemm::gemm<T, Out>({.a = x,
                      .b = part_of(stored<T>(weight_), part, out_),
                      .transpose_b = gemm::Transpose::kYes,
                      .c = y,
                      .bias = part_of(bias_.value.flat(), part, out_)});
}

template <typename T>
void Linear<T>::backward(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx,
                         GradientMode mode, std::size_t part) {
  kernels::check_shape("linear", "dy", dy, x.rows, out_);
  const ScopedTimer timer(Cost::kProducts);
  if (!dx.empty()) {
    gemm::gemm<T>({.a = dy,
                   .b = part_of(stored<T>(weight_), part, out_),
                   .c = dx,
                   .beta = Value(mode == GradientMode::kAccumulate ? 1 : 0)});
  }
  gemm::gemm<T, Value>({.a = dy,
                        .transpose_a = gemm::Transpose::kYes,
                        .b = x,
                        .c = part_of(weight_.gradient.view(), part, out_),
                        .beta = 1});
  if (!bias_.empty()) {
    kernels::add_column_sums<Value>(
        dy.rows, dy.cols, part_of(bias_.gradient.flat(), part, out_),
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
template void Linear<float>::forward(MatrixView<const float>, MatrixView<float>, std::size_t) const;
template void Linear<double>::forward(MatrixView<const double>, MatrixView<double>,
                                      std::size_t) const;
template void Linear<BFloat16>::forward(MatrixView<const BFloat16>, MatrixView<BFloat16>,
                                        std::size_t) const;
template void Linear<BFloat16>::forward(MatrixView<const BFloat16>, MatrixView<float>,
                                        std::size_t) const;

}  // namespace addnorm
