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

/// How many rows of the largest matrices are in memory at a time.
inline constexpr std::size_t kRowsAtATime = 4096;

/// From the stream to logits: for masked tokens (BERT) a linear layer, GELU and a norm; a product
/// with the token embedding or a matrix of its own, whose rows are read some at a time; a bias or a
/// soft cap.
class OutputHead {
 public:
  OutputHead(const Recipe& recipe, const Weights& weights);

  void forward(const Weights& weights, MatrixView<const float> y, MatrixView<float> logits,
               const Pass<float>& pass);
  /// dy from d_logits, which is changed on the way; adds to the gradients of parameters().
  void backward(const Weights& weights, MatrixView<const float> y, MatrixView<float> d_logits,
                MatrixView<float> dy, const Pass<float>& pass);

  /// The name of the product's matrix, and the gradient of its rows from `first_row` on after
  /// backward(): added to what is there.
  const std::string& matrix() const { return matrix_; }
  void add_matrix_gradient(MatrixView<const float> d_logits, std::size_t first_row,
                           MatrixView<float> gradient) const;

  /// All but the matrix.
  ParameterList<float> parameters();

 private:
  double cap_;
  std::string matrix_;
  std::optional<Linear<float>> transform_;
  std::optional<Norm<float>> norm_;
  Parameter<float> bias_;
  Matrix<float> hidden_, active_, normed_, d_hidden_, logits_;
  MatrixView<const float> factor_;  // what the matrix is multiplied with
};

}  // namespace addnorm::model
