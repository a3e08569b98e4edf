#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "addnorm/matrix.h"
#include "addnorm/nn/linear.h"
#include "addnorm/nn/norm.h"
#include "model/recipe.h"
#include "model/weights.h"

namespace addnorm::model {

/// The number of rows of the largest matrices in memory at a time.
inline constexpr std::size_t kRowsAtATime = 4096;

/// The computation from the stream to logits. For masked tokens (BERT) it begins with a linear
/// layer, GELU and a norm. Then follows a product with the token embedding or a separate matrix, of
/// which some rows are in memory at a time, and a bias or a soft cap.
class OutputHead {
 public:
  OutputHead(const Recipe& recipe, const Weights& weights);

  void forward(const Weights& weights, MatrixView<const float> y, MatrixView<float> logits,
               const Pass<float>& pass);
  /// Computes dy from d_logits, which it overwrites; adds to the gradients of parameters().
  void backward(const Weights& weights, MatrixView<const float> y, MatrixView<float> d_logits,
                MatrixView<float> dy, const Pass<float>& pass);

  /// The name of the product's matrix, and the gradient of its rows from `first_row` on, after
  /// backward(). The gradient is added to the old values.
  const std::string& matrix() const { return matrix_; }
  void add_matrix_gradient(MatrixView<const float> d_logits, std::size_t first_row,
                           MatrixView<float> gradient) const;

  /// Returns all parameters except the matrix.
  ParameterList<float> parameters();

 private:
  double cap_;
  std::string matrix_;
  std::optional<Linear<float>> transform_;
  std::optional<Norm<float>> norm_;
  Parameter<float> bias_;
  Matrix<float> hidden_, active_, normed_, d_hidden_, logits_;
  MatrixView<const float> factor_;  // the vectors that the matrix multiplies
};

}  // namespace addnorm::model
