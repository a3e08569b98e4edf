#include "nn/attention.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "base/require.h"
#include "base/time_account.h"
#include "gemm/gemm.h"
#include "kernels/convert.h"
#include "kernels/softmax.h"

namespace addnorm {
namespace {

/// How many queries are worked on at a time: their scores stay in the cache.
constexpr std::size_t kTileQueries = 128;

/// What a thread works on tiles in. Every thread has its own, and keeps it.
template <typename T>
struct TileMemory {
  Matrix<Arithmetic<T>> scores, d_scores;
  Matrix<Arithmetic<T>> d_key, d_value;  // sums over tiles, where T is too coarse for them
  Matrix<T> factor;                      // scores, where products take another type

  static TileMemory& get() {
    static thread_local TileMemory memory;
    return memory;
  }
};

/// The same values in the type of products' factors.
template <typename T>
MatrixView<const T> as_factor(MatrixView<Arithmetic<T>> values, Matrix<T>& memory) {
  if constexpr (kIsArithmetic<T>) {
    return values;
  } else {
    memory.resize(values.rows, values.cols);
    convert<Arithmetic<T>, T>(values, memory);
    return memory;
  }
}

/// Where sums for `result` add up: there, or in `memory` in float32.
template <typename T>
MatrixView<Arithmetic<T>> sums_for(MatrixView<T> result, Matrix<Arithmetic<T>>& memory) {
  if constexpr (kIsArithmetic<T>) {
    return result;
  } else {
    memory.resize(result.rows, result.cols);
    return memory;
  }
}

}  // namespace

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
  check(in, pass);
  batch_ = pass.batch;
  query_length_ = pass.length;
  key_length_ = pass.past + in.key.rows / batch_;
  fed_ = pass.mode == Mode::kEvaluation ? key_length_ : 0;
  const std::size_t room = std::max(key_length_, pass.context);
  q_.resize(in.query.rows, d_model_);
  k_.resize(batch_ * room, d_model_);
  v_.resize(batch_ * room, d_model_);
  context_.resize(in.query.rows, d_model_);

  query_.forward(in.query, q_.view());
  project(key_, in.key, k_, pass);
  project(value_, in.value, v_, pass);
  parallel_for(batch_ * n_heads_, row_grain(query_length_ * key_length_), [&](std::size_t i) {
    for (std::size_t t = 0; t < n_tiles(); ++t) {
      attend(tile_at(t, i / n_heads_, i % n_heads_, pass), pass);
    }
  });
  output_.forward(context_, y);
}

template <typename T>
void MultiHeadAttention<T>::check(const Inputs& in, const Pass<T>& pass) const {
  require(pass.batch > 0 && in.query.rows == pass.rows() && in.key.rows % pass.batch == 0 &&
              in.value.rows == in.key.rows,
          "attention: {} queries, {} keys and {} values do not fit a batch of {} × {}",
          in.query.rows, in.key.rows, in.value.rows, pass.batch, pass.length);
  const std::size_t key_length = pass.past + in.key.rows / pass.batch;
  const AttentionMask& mask = pass.mask;
  require(mask.key_padding.empty() || mask.key_padding.size() == pass.batch * key_length,
          "attention: the key padding mask has {} entries, must have {} × {}",
          mask.key_padding.size(), pass.batch, key_length);
  require(mask.blocked.empty() || mask.blocked.size() == pass.length * key_length,
          "attention: the explicit mask has {} entries, must have {} × {}", mask.blocked.size(),
          pass.length, key_length);
  if (pass.past == 0) return;
  require(pass.mode == Mode::kEvaluation, "attention: only in evaluation may tokens follow others");
  require(pass.past <= fed_ && pass.batch == batch_,
          "attention: {} × {} tokens cannot be past, {} × {} were fed in evaluation", pass.batch,
          pass.past, batch_, fed_);
  require(key_length <= pass.context && pass.batch * pass.context == k_.rows(),
          "attention: there is room for {} tokens of each sequence, not for {} of {}",
          k_.rows() / batch_, key_length, pass.context);
}

/// Writes each sequence's x·Wᵀ + b behind its past rows.
template <typename T>
void MultiHeadAttention<T>::project(const Linear<T>& linear, MatrixView<const T> x,
                                    Matrix<T>& projected, const Pass<T>& pass) const {
  if (projected.rows() == x.rows) return linear.forward(x, projected.view());
  const std::size_t length = x.rows / batch_;
  const std::size_t room = projected.rows() / batch_;
  for (std::size_t s = 0; s < batch_; ++s) {
    linear.forward(x.block(s * length, 0, length, x.cols),
                   projected.view().block(s * room + pass.past, 0, length, d_model_));
  }
}

/// softmax(q·kᵀ/√d_head + mask)
template <typename T>
MatrixView<Arithmetic<T>> MultiHeadAttention<T>::weights(const Tile& tile, const Pass<T>& pass,
                                                         Matrix<Value>& memory) {
  const AttentionMask& mask = pass.mask;
  const bool causal = mask.order == AttentionMask::Order::kCausal;
  memory.resize(tile.queries, tile.keys);
  gemm<T, Value>({.a = queries(q_, tile),
                  .b = keys(k_, tile),
                  .transpose_b = Transpose::kYes,
                  .c = memory,
                  .alpha = score_scale()});
  auto part = [&](std::span<const std::uint8_t> all, std::size_t row) {
    return all.empty() ? all : all.subspan(row * key_length_, tile.keys);
  };
  for (std::size_t i = 0; i < tile.queries; ++i) {
    const std::size_t query = tile.first + i;
    softmax_row<Value>({.scores = memory.view().row(i),
                        .visible = causal ? std::min(pass.past + query + 1, tile.keys) : tile.keys,
                        .blocked1 = part(mask.key_padding, tile.sequence),
                        .blocked2 = part(mask.blocked, query)});
  }
  return memory;
}

/// context = weights·v
template <typename T>
void MultiHeadAttention<T>::attend(const Tile& tile, const Pass<T>& pass) {
  auto& memory = TileMemory<T>::get();
  const auto p = as_factor<T>(weights(tile, pass, memory.scores), memory.factor);
  gemm<T>({.a = p, .b = keys(v_, tile), .c = queries(context_, tile)});
}

template <typename T>
void MultiHeadAttention<T>::backward(const Inputs& in, MatrixView<const T> dy, const Gradients& d,
                                     const Pass<T>& pass) {
  require(pass.past == 0, "attention: there is no backward to past tokens");
  const Charge charge(Cost::kAttention);
  Scratch<T>& scratch = *pass.scratch;
  scratch.d_context.resize(in.query.rows, d_model_);
  scratch.d_query.resize(in.query.rows, d_model_);
  scratch.d_key.resize(in.key.rows, d_model_);
  scratch.d_value.resize(in.key.rows, d_model_);

  output_.backward(context_, dy, scratch.d_context);
  parallel_for(batch_ * n_heads_, row_grain(query_length_ * key_length_),
               [&](std::size_t i) { attend_backward(i / n_heads_, i % n_heads_, pass); });
  auto mode = [](bool shared) {
    return shared ? GradientMode::kAccumulate : GradientMode::kOverwrite;
  };
  query_.backward(in.query, scratch.d_query, d.query);
  key_.backward(in.key, scratch.d_key, d.key, mode(d.key.data == d.query.data));
  value_.backward(in.value, scratch.d_value, d.value,
                  mode(d.value.data == d.query.data || d.value.data == d.key.data));
}

/// dv = pᵀ·dc, dp = dc·vᵀ, ds = softmax'(dp), dq = ds·k/√d_head, dk = dsᵀ·q/√d_head of one head,
/// with p = weights. The last tile has all keys: it is the first, and starts the sums of dk and dv.
template <typename T>
void MultiHeadAttention<T>::attend_backward(std::size_t sequence, std::size_t head_index,
                                            const Pass<T>& pass) {
  Scratch<T>& scratch = *pass.scratch;
  auto& memory = TileMemory<T>::get();
  const MatrixView<T> d_key = head(scratch.d_key, sequence, head_index);
  const MatrixView<T> d_value = head(scratch.d_value, sequence, head_index);
  const MatrixView<Value> dk = sums_for(d_key, memory.d_key);
  const MatrixView<Value> dv = sums_for(d_value, memory.d_value);
  const Value factor = score_scale();
  for (std::size_t t = n_tiles(); t-- > 0;) {
    const Tile tile = tile_at(t, sequence, head_index, pass);
    const Value beta = t + 1 == n_tiles() ? 0 : 1;
    const auto dc = queries(scratch.d_context, tile);
    const MatrixView<Value> p = weights(tile, pass, memory.scores);
    memory.d_scores.resize(tile.queries, tile.keys);
    const MatrixView<Value> ds = memory.d_scores;

    gemm<T, Value>({.a = as_factor<T>(p, memory.factor),
                    .transpose_a = Transpose::kYes,
                    .b = dc,
                    .c = dv.block(0, 0, tile.keys, dv.cols),
                    .beta = beta});
    gemm<T, Value>({.a = dc, .b = keys(v_, tile), .transpose_b = Transpose::kYes, .c = ds});
    for (std::size_t i = 0; i < p.rows; ++i) softmax_row_backward<Value>(p.row(i), ds.row(i));
    const MatrixView<const T> ds_factor = as_factor<T>(ds, memory.factor);
    gemm<T>({.a = ds_factor,
             .b = keys(k_, tile),
             .c = queries(scratch.d_query, tile),
             .alpha = factor});
    gemm<T, Value>({.a = ds_factor,
                    .transpose_a = Transpose::kYes,
                    .b = queries(q_, tile),
                    .c = dk.block(0, 0, tile.keys, dk.cols),
                    .alpha = factor,
                    .beta = beta});
  }
  if constexpr (!kIsArithmetic<T>) {
    convert<Value, T>(dk, d_key);
    convert<Value, T>(dv, d_value);
  }
}

template <typename T>
std::size_t MultiHeadAttention<T>::n_tiles() const {
  return (query_length_ + kTileQueries - 1) / kTileQueries;
}

/// The last tile has all keys, also those that no query may see: their gradients must become 0.
template <typename T>
auto MultiHeadAttention<T>::tile_at(std::size_t index, std::size_t sequence, std::size_t head_index,
                                    const Pass<T>& pass) const -> Tile {
  const std::size_t first = index * kTileQueries;
  const std::size_t end = std::min(first + kTileQueries, query_length_);
  const bool causal = pass.mask.order == AttentionMask::Order::kCausal;
  const std::size_t visible = causal && end < query_length_ ? pass.past + end : key_length_;
  return {.sequence = sequence,
          .head = head_index,
          .first = first,
          .queries = end - first,
          .keys = std::min(visible, key_length_)};
}

template <typename T>
Arithmetic<T> MultiHeadAttention<T>::score_scale() const {
  const std::size_t d_head = d_model_ / n_heads_;
  return Value{1} / std::sqrt(static_cast<Value>(d_head));
}

/// The part of `projected` that belongs to one sequence and head.
template <typename T>
MatrixView<T> MultiHeadAttention<T>::head(Matrix<T>& projected, std::size_t sequence,
                                          std::size_t head_index) const {
  const std::size_t length = projected.rows() / batch_;
  const std::size_t d_head = d_model_ / n_heads_;
  return projected.view().block(sequence * length, head_index * d_head, length, d_head);
}

template <typename T>
MatrixView<T> MultiHeadAttention<T>::queries(Matrix<T>& projected, const Tile& tile) const {
  const MatrixView<T> all = head(projected, tile.sequence, tile.head);
  return all.block(tile.first, 0, tile.queries, all.cols);
}

template <typename T>
MatrixView<T> MultiHeadAttention<T>::keys(Matrix<T>& projected, const Tile& tile) const {
  const MatrixView<T> all = head(projected, tile.sequence, tile.head);
  return all.block(0, 0, tile.keys, all.cols);
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
