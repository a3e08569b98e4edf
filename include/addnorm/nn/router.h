#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "addnorm/nn/linear.h"

namespace addnorm {

/// A mixture of experts that replaces a feed-forward. Each token uses the few experts that its
/// router chooses (Shazeer et al. 2017).
struct ExpertForm {
  std::size_t count = 0;   ///< 0: one feed-forward for all tokens, and no router
  std::size_t chosen = 1;  ///< experts for each token

  bool active() const { return count > 0; }
};

/// Chooses the experts of each token: those with the `chosen` largest logits x·Wᵀ + b. The softmax
/// of these logits weights the experts' outputs. A token has a row for each of its experts. The
/// rows are ordered by expert, and those of one expert by token.
template <typename T>
class Router {
  static_assert(check_module<T>());

 public:
  using Value = Arithmetic<T>;

  Router(std::size_t d_model, const ExpertForm& form, Bias bias);

  void choose(MatrixView<const T> x);
  std::size_t rows() const { return row_.size(); }
  /// The end of each expert's rows.
  std::span<const std::size_t> ends() const { return ends_; }

  /// rows = the tokens' x.
  void spread(MatrixView<const T> x, MatrixView<T> rows) const;
  /// y = Σ weight·row over the rows of each token.
  void combine(MatrixView<const T> rows, MatrixView<T> y) const;

  /// d_rows = weight·dy; keeps the gradients of the weights for spread_backward().
  void combine_backward(MatrixView<const T> rows, MatrixView<const T> dy, MatrixView<T> d_rows);
  /// dx = Σ d_rows plus the gradient through the logits; adds to the parameters' gradients.
  void spread_backward(MatrixView<const T> x, MatrixView<const T> d_rows, MatrixView<T> dx);

  void list_parameters(const std::string& prefix, ParameterList<Value>& list) {
    linear_.list_parameters(prefix, list);
  }
  Linear<T>& linear() { return linear_; }

 private:
  void choose_for(std::size_t token);
  void order_rows(std::size_t tokens);

  ExpertForm form_;
  Linear<T> linear_;
  Matrix<Value> logits_;     // tokens × experts
  Matrix<Value> weights_;    // tokens × chosen
  Matrix<Value> d_weights_;  // tokens × chosen
  Matrix<T> d_logits_;
  std::vector<std::size_t> expert_;  // tokens × chosen
  std::vector<std::size_t> row_;     // tokens × chosen: the index of that row
  std::vector<std::size_t> ends_;
};

}  // namespace addnorm
