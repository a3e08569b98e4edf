#pragma once

#include <cstddef>
#include <string>

#include "addnorm/nn/parameter.h"
#include "addnorm/norm.h"

namespace addnorm {

enum class Bias { kNo, kYes };

/// y = x·Wᵀ + b; x is rows × in, W out × in. With T = BFloat16 the parameters and their gradients
/// are float32, and W is rounded for the products.
template <typename T>
class Linear {
 public:
  using Value = Arithmetic<T>;

  ADDNORM_API Linear(std::size_t in, std::size_t out, Bias bias);

  /// Out is T, or Value.
  template <typename Out>
  ADDNORM_API void forward(MatrixView<const T> x, MatrixView<Out> y) const;
  /// dx = dy·W (or += where mode says so; absent dx: not wanted), dW += dyᵀ·x, db += Σ dy.
  ADDNORM_API void backward(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx,
                            GradientMode mode = GradientMode::kOverwrite);

  ADDNORM_API void list_parameters(const std::string& prefix, ParameterList<Value>& list);
  Parameter<Value>& weight() { return weight_; }
  Parameter<Value>& bias() { return bias_; }

 private:
  Parameter<Value> weight_;
  Parameter<Value> bias_;  // empty: none
};

}  // namespace addnorm
