#pragma once

#include <cstddef>
#include <string>

#include "addnorm/norm.h"
#include "nn/parameter.h"

namespace addnorm {

enum class Bias { kNo, kYes };

/// y = x·Wᵀ + b; x is rows × in, W out × in.
template <typename T>
class Linear {
 public:
  Linear(std::size_t in, std::size_t out, Bias bias);

  void forward(MatrixView<const T> x, MatrixView<T> y) const;
  /// dx = dy·W (or += where mode says so; absent dx: not wanted), dW += dyᵀ·x, db += Σ dy.
  void backward(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx,
                GradientMode mode = GradientMode::kOverwrite);

  void list_parameters(const std::string& prefix, ParameterList<T>& list);
  Parameter<T>& weight() { return weight_; }
  Parameter<T>& bias() { return bias_; }

 private:
  Parameter<T> weight_;
  Parameter<T> bias_;  // empty: none
};

}  // namespace addnorm
