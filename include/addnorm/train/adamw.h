#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "addnorm/nn/parameter.h"

namespace addnorm {

/// AdamW's constants; each step has its own learning rate.
struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;  ///< of weights and embeddings only
};

/// A matrix that training changes, under the name that a checkpoint gives it.
template <typename T>
struct NamedMatrix {
  std::string name;
  Matrix<T>* matrix;
};

/// AdamW (Loshchilov and Hutter 2019, algorithm 2), with decay decoupled from the gradient:
///
///     m = β1·m + (1−β1)·g,  v = β2·v + (1−β2)·g²
///     p −= lr·(m/(1−β1ᵗ)/(√(v/(1−β2ᵗ)) + ε) + weight_decay·p)
template <typename T>
class AdamW {
  static_assert(check_value<T>());

 public:
  ADDNORM_API AdamW(const ParameterList<T>& parameters, const AdamWOptions& options);

  /// `gradient_scale` multiplies each g, for a mean over batches or for clipping.
  ADDNORM_API void step(double learning_rate, double gradient_scale = 1);

  /// Returns the moments of each parameter, named "adamw.first.…" and "adamw.second.…".
  ADDNORM_API std::vector<NamedMatrix<T>> state();
  /// Sets the number of past steps; restore the moments through state().
  void resume(std::size_t steps) { steps_ = steps; }

  /// Returns √Σ g² over all parameters, summed in float64 and a fixed order.
  ADDNORM_API double gradient_norm();

 private:
  struct Moments {
    std::string name;
    Parameter<T>* parameter;
    Matrix<T> first;
    Matrix<T> second;
  };

  AdamWOptions options_;
  std::vector<Moments> moments_;
  std::vector<double> partial_sums_;
  std::size_t steps_ = 0;
};

}  // namespace addnorm
