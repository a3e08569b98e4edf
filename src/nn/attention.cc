#include "nn/attention.h"

#include <cmath>
#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "base/require.h"
#include "base/time_account.h"
#include "gemm/gemm.h"
#include "kernels/convert.h"
#include "kernels/softmax.h"

namespace addnorm {

template <typename T>
MultiHeadAttention<T>::MultiHeadAttention(std::size_t d_model, std::size_t n_heads, Bias bias)
    : d_model_(d_model),
      n_heads_(n_heads),
      query_(d_model, d_model, bias),
      key_(d_model, d_model, bias),
      value_(d_model, d_model, bias),
      output_(d_model, d_model, bias) {
  require(n_heads > 0 && d_model % n_heads == 0,
          "attention: there are {} heads, they must divide d_model = {}", n_heads, d_model);
}

template <typename T>
void MultiHeadAttention<T>::forward(const Inputs& in, MatrixView<T> y, const Pass<T>& pass) {
  const Charge charge(Cost::kAttention);
  require(pass.batch > 0 && in.query.rows == pass.rows() && in.key.rows % pass.batch == 0 &&
              in.value.rows == in.key.rows,
          "attention: {} queries, {} keys and {} values do not fit a batch of {} × {}",
          in.query.rows, in.key.rows, in.value.rows, pass.batch, pass.length);
  batch_ = pass.batch;
  query_length_ = pass.length;
  key_length_ = in.key.rows / pass.batch;
  const AttentionMask& mask = pass.mask;
  require(mask.key_padding.empty() || mask.key_padding.size() == in.key.rows,
          "attention: the key padding mask has {} entries, must have {}", mask.key_padding.size(),
          in.key.rows);
  require(mask.blocked.empty() || mask.blocked.size() == query_length_ * key_length_,
          "attention: the explicit mask has {} entries, must have {} × {}", mask.blocked.size(),
          query_length_, key_length_);
  q_.resize(in.query.rows, d_model_);
  k_.resize(in.key.rows, d_model_);
  v_.resize(in.key.rows, d_model_);
  context_.resize(in.query.rows, d_model_);
  weights_.resize(pass.batch * n_heads_ * query_length_, key_length_);

  query_.forward(in.query, q_.view());
  key_.forward(in.key, k_.view());
  value_.forward(in.value, v_.view());
  parallel_for(pass.batch * n_heads_, row_grain(query_length_ * key_length_),
               [&](std::size_t i) { attend(i / n_heads_, i % n_heads_, pass); });
  output_.forward(context_, y);
}

namespace {

/// One head's scores or their gradients, in the type that softmax computes in. Every thread has its
/// own, and keeps it.
template <typename Value>
Matrix<Value>& head_scores(std::size_t queries, std::size_t keys) {
  static thread_local Matrix<Value> scores;
  scores.resize(queries, keys);
  return scores;
}

/// The scores' gradient from that of p, in the type of p: over dp, or over p, which is not needed
/// any more.
template <typename T>
MatrixView<const T> softmax_backward(MatrixView<T> p, MatrixView<Arithmetic<T>> dp) {
  using Value = Arithmetic<T>;
  if constexpr (kIsArithmetic<T>) {
    for (std::size_t i = 0; i < p.rows; ++i) softmax_row_backward<T>(p.row(i), dp.row(i));
    return dp;
  } else {
    static thread_local std::vector<Value> row;
    row.resize(p.cols);
    for (std::size_t i = 0; i < p.rows; ++i) {
      convert<T, Value>(p.block(i, 0, 1, p.cols), {row.data(), 1, p.cols});
      softmax_row_backward<Value>(row, dp.row(i));
    }
    convert<Value, T>(dp, p);
    return p;
  }
}

}  // namespace

/// context = softmax(q·kᵀ/√d_head + mask)·v of one head.
template <typename T>
void MultiHeadAttention<T>::attend(std::size_t batch, std::size_t head_index, const Pass<T>& pass) {
  const AttentionMask& mask = pass.mask;
  const MatrixView<T> weights = weights_of(weights_, batch, head_index);
  MatrixView<Value> scores;
  if constexpr (kIsArithmetic<T>) {
    scores = weights;
  } else {
    scores = head_scores<Value>(query_length_, key_length_);
  }
  gemm<T, Value>({.a = head(q_, batch, head_index),
                  .b = head(k_, batch, head_index),
                  .transpose_b = Transpose::kYes,
                  .c = scores,
                  .alpha = score_scale()});
  for (std::size_t i = 0; i < query_length_; ++i) {
    const bool causal = mask.order == AttentionMask::Order::kCausal;
    auto part = [&](std::span<const std::uint8_t> all, std::size_t row) {
      return all.empty() ? all : all.subspan(row * key_length_, key_length_);
    };
    softmax_row<Value>({.scores = scores.row(i),
                        .visible = causal ? std::min(i + 1, key_length_) : key_length_,
                        .blocked1 = part(mask.key_padding, batch),
                        .blocked2 = part(mask.blocked, i)});
  }
  if constexpr (!kIsArithmetic<T>) convert<Value, T>(scores, weights);
  gemm<T>({.a = weights, .b = head(v_, batch, head_index), .c = head(context_, batch, head_index)});
}

template <typename T>
void MultiHeadAttention<T>::backward(const Inputs& in, MatrixView<const T> dy, const Gradients& d,
                                     const Pass<T>& pass) {
  const Charge charge(Cost::kAttention);
  Scratch<T>& scratch = *pass.scratch;
  scratch.d_context.resize(context_.rows(), d_model_);
  scratch.d_query.resize(q_.rows(), d_model_);
  scratch.d_key.resize(k_.rows(), d_model_);
  scratch.d_value.resize(v_.rows(), d_model_);

  output_.backward(context_, dy, scratch.d_context);
  parallel_for(pass.batch * n_heads_, row_grain(query_length_ * key_length_),
               [&](std::size_t i) { attend_backward(i / n_heads_, i % n_heads_, pass); });
  auto mode = [](bool shared) {
    return shared ? GradientMode::kAccumulate : GradientMode::kOverwrite;
  };
  query_.backward(in.query, scratch.d_query, d.query);
  key_.backward(in.key, scratch.d_key, d.key, mode(d.key.data == d.query.data));
  value_.backward(in.value, scratch.d_value, d.value,
                  mode(d.value.data == d.query.data || d.value.data == d.key.data));
}

/// dv = pᵀ·dc, dp = dc·vᵀ, ds = softmax'(dp), dq = ds·k/√d_head, dk = dsᵀ·q/√d_head of one head.
template <typename T>
void MultiHeadAttention<T>::attend_backward(std::size_t batch, std::size_t head_index,
                                            const Pass<T>& pass) {
  Scratch<T>& scratch = *pass.scratch;
  const Value factor = score_scale();
  auto of_head = [&](Matrix<T>& matrix) { return head(matrix, batch, head_index); };
  const MatrixView<T> p = weights_of(weights_, batch, head_index);
  const MatrixView<T> d_context = of_head(scratch.d_context);
  const MatrixView<Value> dp = head_scores<Value>(query_length_, key_length_);

  gemm<T>({.a = p, .transpose_a = Transpose::kYes, .b = d_context, .c = of_head(scratch.d_value)});
  gemm<T, Value>({.a = d_context, .b = of_head(v_), .transpose_b = Transpose::kYes, .c = dp});
  const MatrixView<const T> ds = softmax_backward(p, dp);
  gemm<T>({.a = ds, .b = of_head(k_), .c = of_head(scratch.d_query), .alpha = factor});
  gemm<T>({.a = ds,
           .transpose_a = Transpose::kYes,
           .b = of_head(q_),
           .c = of_head(scratch.d_key),
           .alpha = factor});
}

template <typename T>
Arithmetic<T> MultiHeadAttention<T>::score_scale() const {
  const std::size_t d_head = d_model_ / n_heads_;
  return Value{1} / std::sqrt(static_cast<Value>(d_head));
}

/// The part of `projected` that belongs to one sequence and head.
template <typename T>
MatrixView<T> MultiHeadAttention<T>::head(Matrix<T>& projected, std::size_t batch,
                                          std::size_t head_index) const {
  const std::size_t length = projected.rows() / batch_;
  const std::size_t d_head = d_model_ / n_heads_;
  return projected.view().block(batch * length, head_index * d_head, length, d_head);
}

template <typename T>
MatrixView<T> MultiHeadAttention<T>::weights_of(Matrix<T>& weights, std::size_t batch,
                                                std::size_t head_index) const {
  return weights.view().block((batch * n_heads_ + head_index) * query_length_, 0, query_length_,
                              key_length_);
}

template <typename T>
void MultiHeadAttention<T>::list_parameters(const std::string& prefix, ParameterList<Value>& list) {
  query_.list_parameters(prefix + ".query", list);
  key_.list_parameters(prefix + ".key", list);
  value_.list_parameters(prefix + ".value", list);
  output_.list_parameters(prefix + ".output", list);
}

template class MultiHeadAttention<float>;
template class MultiHeadAttention<double>;
template class MultiHeadAttention<BFloat16>;

}  // namespace addnorm
