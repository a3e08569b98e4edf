#include "model/output_head.h"

#include <algorithm>
#include <cmath>

#include "gemm/gemm.h"
#include "kernels/activation.h"
#include "kernels/column_sums.h"

namespace addnorm::model {
namespace {

/// Calls body(first row, rows, their values) for all rows of a matrix, some at a time.
template <typename Body>
void for_rows(const Weights& weights, const std::string& name, std::size_t rows, std::size_t cols,
              const Body& body) {
  Matrix<float> values;
  for (std::size_t first = 0; first < rows; first += kRowsAtATime) {
    values.resize(std::min(kRowsAtATime, rows - first), cols);
    weights.read(name, first, values);
    body(first, values.rows(), values.view());
  }
}

}  // namespace

OutputHead::OutputHead(const Recipe& recipe, const Weights& weights)
    : cap_(recipe.logit_cap),
      matrix_(recipe.output == ModelOutput::kLogits ? "head.weight" : "embedding.token") {
  if (recipe.output != ModelOutput::kMaskedLogits) return;
  const std::size_t d = recipe.d_model();
  transform_.emplace(d, d, Bias::kYes);
  norm_.emplace(recipe.block.norm, d, Affine::kGammaBeta);
  bias_ = Parameter<float>(1, recipe.vocabulary, ParameterRole::kBias);
  weights.load(parameters());
}

void OutputHead::forward(const Weights& weights, MatrixView<const float> y,
                         MatrixView<float> logits, const Pass<float>& pass) {
  factor_ = y;
  if (transform_) {
    for (Matrix<float>* matrix : {&hidden_, &active_, &normed_}) matrix->resize(y.rows, y.cols);
    transform_->forward(y, hidden_.view());
    kernels::activate<float>(kernels::Activation::kGelu, hidden_, active_);
    norm_->forward({.x = active_}, {}, normed_, pass);
    factor_ = normed_;
  }
  const std::span<const float> bias = bias_.value.flat();
  for_rows(weights, matrix_, logits.cols, y.cols,
           [&](std::size_t first, std::size_t rows, MatrixView<const float> values) {
             gemm::gemm<float>({.a = factor_,
                                .b = values,
                                .transpose_b = gemm::Transpose::kYes,
                                .c = logits.block(0, first, logits.rows, rows),
                                .bias = bias.empty() ? bias : bias.subspan(first, rows)});
           });
  if (cap_ == 0) return;
  const auto cap = static_cast<float>(cap_);
  logits_.resize(logits.rows, logits.cols);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits.data[i] = cap * std::tanh(logits.data[i] / cap);
    logits_.data()[i] = logits.data[i];
  }
}

void OutputHead::backward(const Weights& weights, MatrixView<const float> y,
                          MatrixView<float> d_logits, MatrixView<float> dy,
                          const Pass<float>& pass) {
  if (cap_ != 0) {
    const auto cap = static_cast<float>(cap_);
    for (std::size_t i = 0; i < d_logits.size(); ++i) {
      const float share = logits_.data()[i] / cap;
      d_logits.data[i] *= 1 - share * share;
    }
  }
  if (!bias_.empty()) {
    kernels::add_column_sums<float>(d_logits.rows, d_logits.cols, bias_.gradient.flat(),
                                    [&](std::size_t r, std::size_t i) { return d_logits(r, i); });
  }
  for_rows(weights, matrix_, d_logits.cols, dy.cols,
           [&](std::size_t first, std::size_t rows, MatrixView<const float> values) {
             gemm::gemm<float>({.a = d_logits.block(0, first, d_logits.rows, rows),
                                .b = values,
                                .c = dy,
                                .beta = first == 0 ? 0.0F : 1.0F});
           });
  if (!transform_) return;
  norm_->backward({.s = active_, .dy = dy, .dx = dy}, pass);
  kernels::activate_backward<float>(kernels::Activation::kGelu, {.x = hidden_, .dy = dy, .dx = dy});
  d_hidden_.resize(dy.rows, dy.cols);
  std::ranges::copy(std::span(dy.data, dy.size()), d_hidden_.data());
  transform_->backward(y, d_hidden_, dy);
}

void OutputHead::add_matrix_gradient(MatrixView<const float> d_logits, std::size_t first_row,
                                     MatrixView<float> gradient) const {
  gemm::gemm<float>({.a = d_logits.block(0, first_row, d_logits.rows, gradient.rows),
                     .transpose_a = gemm::Transpose::kYes,
                     .b = factor_,
                     .c = gradient,
                     .beta = 1});
}

ParameterList<float> OutputHead::parameters() {
  ParameterList<float> list;
  if (transform_) transform_->list_parameters("head.transform", list);
  if (norm_) norm_->list_parameters("head.norm", list);
  list_parameter(list, "head", "bias", bias_);
  return list;
}

}  // namespace addnorm::model
