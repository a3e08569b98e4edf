#include "kernels/activation.h"

#include <algorithm>
#include <numbers>

#include "base/parallel.h"
#include "kernels/check.h"
#include "kernels/math.h"

namespace addnorm {
namespace {

template <typename T>
constexpr T kSqrtHalf = std::numbers::sqrt2_v<T> / 2;
template <typename T>
constexpr T kSqrtTwoOverPi = std::numbers::sqrt2_v<T>* std::numbers::inv_sqrtpi_v<T>;

using math::sigmoid;

template <typename T>
T normal_cdf(T x) {
  return math::erfc(-x * kSqrtHalf<T>) / 2;
}
template <typename T>
T normal_density(T x) {
  return math::exp(-x * x / 2) * (kSqrtHalf<T> * std::numbers::inv_sqrtpi_v<T>);
}
/// (1 + tanh(u))/2 = sigmoid(2u) with GPT-2's u.
template <typename T>
T tanh_gate(T x) {
  return sigmoid(2 * kSqrtTwoOverPi<T> * (x + T(0.044715) * x * x * x));
}

/// Calls use(value, derivative) with the activation's two functions of x.
template <typename T, typename Use>
void with_activation(Activation activation, const Use& use) {
  switch (activation) {
    case Activation::kRelu:
      return use([](T x) { return x < 0 ? T{0} : x; },  // keeps NaN
                 [](T x) { return T(x > 0 ? 1 : 0); });
    case Activation::kGelu:
      return use([](T x) { return x * normal_cdf(x); },
                 [](T x) { return normal_cdf(x) + x * normal_density(x); });
    case Activation::kGeluTanh:
      return use([](T x) { return x * tanh_gate(x); },
                 [](T x) {
                   const T gate = tanh_gate(x);
                   const T near = std::clamp(x, T(-64), T(64));  // beyond, the gate is 0 or 1
                   const T slope = 2 * kSqrtTwoOverPi<T> * (1 + T(3 * 0.044715) * near * near);
                   return gate + x * gate * (1 - gate) * slope;
                 });
    case Activation::kSilu:
      return use([](T x) { return x * sigmoid(x); },
                 [](T x) {
                   const T s = sigmoid(x);
                   return s * (1 + x * (1 - s));
                 });
  }
}

constexpr std::size_t kRowsGrain = 4096;  // values that are worth one thread

}  // namespace

template <typename T>
void activate(Activation activation, MatrixView<const T> x, MatrixView<T> y) {
  check_shape("activate", "y", y, x.rows, x.cols);
  with_activation<T>(activation, [&](const auto& value, const auto&) {
    parallel_for(x.rows, 1 + kRowsGrain / (x.cols + 1), [&](std::size_t r) {
      const T* in = x.row(r).data();
      T* out = y.row(r).data();
      for (std::size_t i = 0; i < x.cols; ++i) out[i] = value(in[i]);
    });
  });
}

template <typename T>
void activate_backward(Activation activation, const ActivateBackward<T>& args) {
  const auto& [x, dy, dx] = args;
  check_shape("activate_backward", "dy", dy, x.rows, x.cols);
  check_shape("activate_backward", "dx", dx, x.rows, x.cols);
  with_activation<T>(activation, [&](const auto&, const auto& derivative) {
    parallel_for(args.x.rows, 1 + kRowsGrain / (args.x.cols + 1), [&](std::size_t r) {
      const T* in = args.x.row(r).data();
      const T* gradient = args.dy.row(r).data();
      T* out = args.dx.row(r).data();
      for (std::size_t i = 0; i < args.x.cols; ++i) out[i] = derivative(in[i]) * gradient[i];
    });
  });
}

template void activate(Activation, MatrixView<const float>, MatrixView<float>);
template void activate(Activation, MatrixView<const double>, MatrixView<double>);
template void activate_backward(Activation, const ActivateBackward<float>&);
template void activate_backward(Activation, const ActivateBackward<double>&);

}  // namespace addnorm
