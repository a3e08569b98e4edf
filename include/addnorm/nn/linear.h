#pragma once

#include <cstddef>
#include <string>

#include "addnorm/nn/parameter.h"
#include "addnorm/norm.h"

namespace addnorm {

enum class Bias { kNo, kYes };

/// y = x·Wᵀ + b; x is rows × in, W is out × in. With T = BFloat16 the parameters and their
/// gradients are float32, and W is rounded for the products. Several maps of one shape, such as
/// those of experts, are parts: W is parts·out × in, and b has parts·out values.
template <typename T>
class Linear {
  static_assert(check_module<T>());

 public:
  using Value = Arithmetic<T>;

  ADDNORM_API Linear(std::size_t in, std::size_t out, Bias bias, std::size_t parts = 1);

  /// Out is T or Value.
  template <typename Out>
  ADDNORM_API void forward(MatrixView<const T> x, MatrixView<Out> y, std::size_t part = 0) const;
  /// \cond
  template <NoneOf<T, Value> Out>
  void forward(MatrixView<const T>, MatrixView<Out>, std::size_t = 0) const {
    static_assert(kIsOneOf<Out, T, Value>,
                  "addnorm: y of a Linear<T> must have the type T, or float where T is BFloat16");
  }
  /// \endcond
  /// dx = dy·W (or += depending on mode; absent: not wanted), dW += dyᵀ·x, db += Σ dy.
  ADDNORM_API void backward(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx,
                            GradientMode mode = GradientMode::kOverwrite, std::size_t part = 0);

  ADDNORM_API void list_parameters(const std::string& prefix, ParameterList<Value>& list);
  std::size_t out() const { return out_; }  ///< of each part
  Parameter<Value>& weight() { return weight_; }
  Parameter<Value>& bias() { return bias_; }

 private:
  std::size_t out_;  // of a part
  Parameter<Value> weight_;
  Parameter<Value> bias_;  // empty: none
};

}  // namespace addnorm
