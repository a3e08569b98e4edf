#pragma once

#include "addnorm/view.h"

namespace addnorm::kernels {

enum class Activation {
  kRelu,      ///< max(x, 0)
  kGelu,      ///< x·Φ(x), exact (Hendrycks and Gimpel 2016)
  kGeluTanh,  ///< x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³))), GPT-2's approximation
  kSilu,      ///< x·sigmoid(x); gates SwiGLU (Shazeer 2020)
};

/// y = activation(x). y may be x.
template <typename T>
void activate(Activation activation, MatrixView<const T> x, MatrixView<T> y);

/// dx = activation'(x) ⊙ dy. dx may be dy.
template <typename T>
struct ActivateBackward {
  MatrixView<const T> x;
  MatrixView<const T> dy;
  MatrixView<T> dx;
};
template <typename T>
void activate_backward(Activation activation, const ActivateBackward<T>& args);

}  // namespace addnorm::kernels
