#include "addnorm/nn/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "base/require.h"
#include "base/time_account.h"
#include "gemm/gemm.h"
#include "kernels/column_sums.h"
#include "kernels/convert.h"
#include "kernels/softmax.h"
#include "nn/copy.h"
#include "nn/rope.h"

namespace addnorm {
namespace {

/// The number of queries in a tile: their scores stay in the cache.
constexpr std::size_t kTileQueries = 128;

/// A thread's memory for tiles, which is kept between calls.
template <typename T>
struct TileMemory {
  Matrix<Arithmetic<T>> scores, d_scores;
  Matrix<Arithmetic<T>> capped;          // scores before softmax, for a soft cap's gradient
  Matrix<Arithmetic<T>> d_key, d_value;  // sums over tiles, if T is too coarse for them
  Matrix<T> factor;                      // scores in the type of products' factors

  static TileMemory& get() {
    static thread_local TileMemory memory;
    return memory;
  }
};

/// Returns the memory in which sums for `result` add up: `result` itself, or `memory` in float32.
template <typename T>
MatrixView<Arithmetic<T>> sums_for(MatrixView<T> result, Matrix<Arithmetic<T>>& memory) {
  if constexpr (kIsArithmetic<T>) {
    return result;
  } else {
    memory.resize(result.rows, result.cols);
    return memory;
  }
}

/// Returns the form with each default 0 replaced by its value.
AttentionForm completed(AttentionForm form, std::size_t d_model, std::size_t n_heads) {
  require(n_heads > 0 && (form.d_head > 0 || d_model % n_heads == 0),
          "attention: there are {} heads, they must divide d_model = {}", n_heads, d_model);
  if (form.n_kv_heads == 0) form.n_kv_heads = n_heads;
  if (form.d_head == 0) form.d_head = d_model / n_heads;
  if (form.d_value == 0) form.d_value = form.d_head;
  if (form.score_scale == 0) form.score_scale = 1 / std::sqrt(static_cast<double>(form.d_head));
  require(n_heads % form.n_kv_heads == 0,
          "attention: there are {} heads of keys, they must divide the {} heads of queries",
          form.n_kv_heads, n_heads);
  require(
      2 * form.rope.size() <= form.d_head,
      "attention: there are {} rotary frequencies for the {} features of a head, must be at most "
      "half as many",
      form.rope.size(), form.d_head);
  require(
      form.relative_bias.buckets % 4 == 0 && (form.soft_cap == 0 || !form.relative_bias.active()),
      "attention: a relative bias has {} buckets, must be a multiple of 4, and no soft cap",
      form.relative_bias.buckets);
  require(!form.latent.active() || (form.n_kv_heads == n_heads && form.qk_norm == QkNorm::kNone &&
                                    2 * form.rope.size() < form.d_head),
          "attention: keys of latent vectors have {} heads for {} of queries, must have as many, "
          "no norm, and features that are not rotated",
          form.n_kv_heads, n_heads);
  return form;
}

/// Returns the scores without the sink's column.
template <typename V>
MatrixView<V> of_keys(MatrixView<V> scores, std::size_t keys) {
  return scores.block(0, 0, scores.rows, keys);
}

/// Returns the key projection by head. With latent vectors it has only the features that are not
/// rotated.
template <typename T>
Linear<T> key_projection(const AttentionForm& form, std::size_t d_model, Bias bias) {
  if (!form.latent.active()) return {d_model, form.n_kv_heads * form.d_head, bias};
  return {form.latent.rank, form.d_head - 2 * form.rope.size(), bias, form.n_kv_heads};
}

/// Returns the width of the input of the query or value projection.
std::size_t source_width(std::size_t rank, std::size_t d_model) {
  return rank > 0 ? rank : d_model;
}

/// Returns the same memory as rows of `features`: each head of a token separately, or all together.
template <typename V>
MatrixView<V> rows_of(MatrixView<V> x, std::size_t features) {
  return {x.data, x.rows * (x.cols / features), features};
}

}  // namespace

std::vector<double> rope_frequencies(double base, std::size_t d_head) {
  std::vector<double> frequencies(d_head / 2);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(d_head));
  }
  return frequencies;
}

template <typename T>
MultiHeadAttention<T>::MultiHeadAttention(std::size_t d_model, std::size_t n_heads, Bias bias,
                                          const AttentionForm& form)
    : d_model_(d_model),
      n_heads_(n_heads),
      form_(completed(form, d_model, n_heads)),
      query_(source_width(form_.latent.query_rank, d_model), n_heads * form_.d_head,
             std::max(bias, form_.qkv_bias)),
      key_(key_projection<T>(form_, d_model, std::max(bias, form_.qkv_bias))),
      value_(source_width(form_.latent.rank, d_model), form_.n_kv_heads * form_.d_value,
             std::max(bias, form_.qkv_bias)),
      output_(n_heads * form_.d_value, d_model, bias) {
  if (form_.latent.active()) {
    latent_.emplace(d_model, form_.latent.rank + d_turning(), bias);
    key_norm_.emplace(form_.norm, form_.latent.rank, Affine::kGamma);
  }
  if (form_.latent.query_rank > 0) {
    query_latent_.emplace(d_model, form_.latent.query_rank, bias);
    query_norm_.emplace(form_.norm, form_.latent.query_rank, Affine::kGamma);
  }
  if (form_.qk_norm != QkNorm::kNone) {
    const bool all = form_.qk_norm == QkNorm::kAllHeads;
    query_norm_.emplace(form_.norm, form_.d_head * (all ? n_heads : 1), Affine::kGamma);
    key_norm_.emplace(form_.norm, form_.d_head * (all ? form_.n_kv_heads : 1), Affine::kGamma);
  }
  if (form_.relative_bias.active()) {
    relative_bias_ = Parameter<Value>(form_.relative_bias.buckets, n_heads, ParameterRole::kWeight);
  }
  if (form_.has_sinks) sinks_ = Parameter<Value>(1, n_heads, ParameterRole::kBias);
}

template <typename T>
void MultiHeadAttention<T>::forward(const Inputs& in, MatrixView<T> y, const Pass<T>& pass) {
  const ScopedTimer timer(Cost::kAttention);
  check(in, pass);
  batch_ = pass.batch;
  query_length_ = pass.length;
  key_length_ = pass.past + in.key.rows / batch_;
  fed_ = pass.mode == Mode::kEvaluation ? key_length_ : 0;
  const std::size_t room = std::max(key_length_, pass.context);
  q_.resize(in.query.rows, n_heads_ * form_.d_head);
  k_.resize(batch_ * room, form_.n_kv_heads * form_.d_head);
  v_.resize(batch_ * room, form_.n_kv_heads * form_.d_value);
  context_.resize(q_.rows(), n_heads_ * form_.d_value);

  if (latent_) {
    prepare_latent(in.query, pass);
  } else {
    prepare(query_, query_norm_, in.query, raw_q_, q_, pass);
    prepare(key_, key_norm_, in.key, raw_k_, k_, pass);
    project(value_, in.value, v_, pass);
  }
  parallel_for(batch_ * n_heads_, row_grain(query_length_ * key_length_), [&](std::size_t i) {
    for (std::size_t t = 0; t < n_tiles(); ++t) {
      attend(tile_at(t, i / n_heads_, i % n_heads_, pass), pass);
    }
  });
  output_.forward(context_, y);
  if (pass.probe != nullptr && pass.probe->wants_scores()) observe_scores(pass);
}

template <typename T>
void MultiHeadAttention<T>::check(const Inputs& in, const Pass<T>& pass) const {
  require(pass.batch > 0 && in.query.rows == pass.rows() && in.key.rows % pass.batch == 0 &&
              in.value.rows == in.key.rows,
          "attention: {} queries, {} keys and {} values do not fit a batch of {} × {}",
          in.query.rows, in.key.rows, in.value.rows, pass.batch, pass.length);
  require(!latent_ || (in.key.data == in.query.data && in.value.data == in.query.data &&
                       pass.past == 0 && pass.context <= pass.length),
          "attention: with latent vectors it reads one input, and no past tokens");
  const std::size_t key_length = pass.past + in.key.rows / pass.batch;
  const AttentionMask& mask = pass.mask;
  require(form_.window == 0 || mask.order == AttentionMask::Order::kCausal,
          "attention: a window of {} keys needs a causal mask", form_.window);
  require(mask.key_padding.empty() || mask.key_padding.size() == pass.batch * key_length,
          "attention: the key padding mask has {} entries, must have {} × {}",
          mask.key_padding.size(), pass.batch, key_length);
  require(mask.blocked.empty() || mask.blocked.size() == pass.length * key_length,
          "attention: the explicit mask has {} entries, must have {} × {}", mask.blocked.size(),
          pass.length, key_length);
  if (pass.past == 0) return;
  require(pass.mode == Mode::kEvaluation, "attention: past tokens are allowed only in evaluation");
  require(pass.past <= fed_ && pass.batch == batch_,
          "attention: {} × {} tokens cannot be past, {} × {} were fed in evaluation", pass.batch,
          pass.past, batch_, fed_);
  require(key_length <= pass.context && pass.batch * pass.context == k_.rows(),
          "attention: there is room for {} tokens of each sequence, not for {} of {}",
          k_.rows() / batch_, key_length, pass.context);
}

/// Returns the rows of one sequence in `projected` for this pass's tokens, after its past rows.
template <typename T>
MatrixView<T> MultiHeadAttention<T>::fed(Matrix<T>& projected, std::size_t sequence,
                                         std::size_t length, const Pass<T>& pass) const {
  const std::size_t room = projected.rows() / batch_;
  const std::size_t first = sequence * room + (room == length ? 0 : pass.past);
  return projected.view().block(first, 0, length, projected.cols());
}

/// Writes each sequence's x·Wᵀ + b after its past rows.
template <typename T>
void MultiHeadAttention<T>::project(const Linear<T>& linear, MatrixView<const T> x,
                                    Matrix<T>& projected, const Pass<T>& pass) const {
  if (projected.rows() == x.rows) return linear.forward(x, projected.view());
  const std::size_t length = x.rows / batch_;
  for (std::size_t s = 0; s < batch_; ++s) {
    linear.forward(x.block(s * length, 0, length, x.cols), fed(projected, s, length, pass));
  }
}

/// Computes queries or keys: projected, normalized and rotated, depending on the form.
template <typename T>
void MultiHeadAttention<T>::prepare(const Linear<T>& linear, std::optional<Norm<T, T>>& norm,
                                    MatrixView<const T> x, Matrix<T>& raw, Matrix<T>& projected,
                                    const Pass<T>& pass) {
  const std::size_t length = x.rows / batch_;
  if (norm) {
    raw.resize(x.rows, projected.cols());
    linear.forward(x, raw.view());
    const std::size_t features = norm->gamma().value.cols();
    const std::size_t pieces = projected.rows() == x.rows ? 1 : batch_;
    const std::size_t rows = x.rows / pieces;
    for (std::size_t i = 0; i < pieces; ++i) {
      const MatrixView<T> to = pieces == 1 ? projected.view() : fed(projected, i, length, pass);
      const MatrixView<T> from = raw.view().block(i * rows, 0, rows, raw.cols());
      norm->forward({.x = rows_of(from, features)}, {}, rows_of(to, features), pass);
    }
  } else {
    project(linear, x, projected, pass);
  }
  rotate_heads(Rotation::kForward, projected, length, pass);
}

/// Replaces the gradient of prepared queries or keys by that of the projection.
template <typename T>
void MultiHeadAttention<T>::prepare_backward(std::optional<Norm<T, T>>& norm, Matrix<T>& raw,
                                             Matrix<T>& d, const Pass<T>& pass) {
  rotate_heads(Rotation::kBack, d, d.rows() / batch_, pass);
  if (!norm) return;
  const std::size_t features = norm->gamma().value.cols();
  const MatrixView<T> gradient = rows_of(d.view(), features);
  norm->backward({.s = rows_of(raw.view(), features), .dy = gradient, .dx = gradient}, pass);
}

template <typename T>
void MultiHeadAttention<T>::rotate_heads(Rotation direction, Matrix<T>& projected,
                                         std::size_t length, const Pass<T>& pass) const {
  if (form_.rope.empty()) return;
  const Rotary rotary{form_.rope, form_.d_head, form_.rotary_pairs, form_.rotary_gain};
  for (std::size_t s = 0; s < batch_; ++s) {
    rotate<T>(rotary, pass.past, direction, fed(projected, s, length, pass));
  }
}

/// q·kᵀ·scale, with the form's soft cap or relative bias; with a sink, its column follows the keys.
template <typename T>
MatrixView<Arithmetic<T>> MultiHeadAttention<T>::scores(const Tile& tile, const Pass<T>& pass,
                                                        Matrix<Value>& memory) {
  memory.resize(tile.queries, tile.keys + (form_.has_sinks ? 1 : 0));
  gemm::gemm<T, Value>({.a = queries(q_, tile),
                        .b = keys(k_, tile),
                        .transpose_b = gemm::Transpose::kYes,
                        .c = of_keys(memory.view(), tile.keys),
                        .alpha = static_cast<Value>(form_.score_scale)});
  if (form_.soft_cap > 0) {
    const auto cap = static_cast<Value>(form_.soft_cap);
    for (Value& score : memory.flat()) score = cap * std::tanh(score / cap);
  }
  if (form_.relative_bias.active()) {
    for_biases(tile, pass, [&](std::size_t i, std::size_t key, std::size_t bucket) {
      memory(i, key) += relative_bias_.value(bucket, tile.head);
    });
  }
  return memory;
}

/// softmax(scores + mask), in place. During the row's softmax a sink follows the visible keys, as
/// if it were one of them.
template <typename T>
MatrixView<Arithmetic<T>> MultiHeadAttention<T>::weigh(const Tile& tile, const Pass<T>& pass,
                                                       MatrixView<Value> scores) const {
  const AttentionMask& mask = pass.mask;
  for (std::size_t i = 0; i < tile.queries; ++i) {
    const std::size_t query = tile.first + i;
    const auto [first, end] = visible_keys(query, tile.keys, pass);
    auto part = [&, from = first, n = end - first](std::span<const std::uint8_t> all,
                                                   std::size_t row) {
      return all.empty() ? all : all.subspan(row * key_length_ + from, n);
    };
    const std::span<Value> row = scores.row(i);
    std::ranges::fill(row.first(first), Value{0});
    if (form_.has_sinks) row[end] = sinks_.value(0, tile.head);
    kernels::softmax_row<Value>({.scores = row.subspan(first),
                                 .visible = end - first + (form_.has_sinks ? 1 : 0),
                                 .blocked1 = part(mask.key_padding, tile.sequence),
                                 .blocked2 = part(mask.blocked, query)});
    if (form_.has_sinks) row[end] = 0;
  }
  return of_keys(scores, tile.keys);
}

/// Returns the range of keys, from .first to .second, that order and window allow for a query.
/// Blocked keys within it are still hidden.
template <typename T>
std::pair<std::size_t, std::size_t> MultiHeadAttention<T>::visible_keys(std::size_t query,
                                                                        std::size_t keys,
                                                                        const Pass<T>& pass) const {
  if (pass.mask.order != AttentionMask::Order::kCausal) return {0, keys};
  const std::size_t end = pass.past + query + 1;
  const std::size_t first = form_.window > 0 && end > form_.window ? end - form_.window : 0;
  return {std::min(first, keys), std::min(end, keys)};
}

/// Calls body(row, key, bucket) for each query of the tile and each of its keys.
template <typename T>
template <typename Body>
void MultiHeadAttention<T>::for_biases(const Tile& tile, const Pass<T>& pass,
                                       const Body& body) const {
  for (std::size_t i = 0; i < tile.queries; ++i) {
    for (std::size_t key = 0; key < tile.keys; ++key) {
      body(i, key, form_.relative_bias.bucket(pass.past + tile.first + i, key));
    }
  }
}

/// context = weights·v
template <typename T>
void MultiHeadAttention<T>::attend(const Tile& tile, const Pass<T>& pass) {
  auto& memory = TileMemory<T>::get();
  const MatrixView<Value> p = weigh(tile, pass, scores(tile, pass, memory.scores));
  gemm::gemm<T>({.a = nn::converted<T, Value>(p, memory.factor),
                 .b = keys(v_, tile),
                 .c = queries(context_, tile)});
}

template <typename T>
void MultiHeadAttention<T>::backward(const Inputs& in, MatrixView<const T> dy, const Gradients& d,
                                     const Pass<T>& pass) {
  require(pass.past == 0, "attention: there is no backward to past tokens");
  require(in.query.rows == batch_ * query_length_ && in.key.rows == batch_ * key_length_ &&
              in.value.rows == in.key.rows,
          "attention: {} queries, {} keys and {} values are not those of the last forward, {} × {} "
          "and {} × {}",
          in.query.rows, in.key.rows, in.value.rows, batch_, query_length_, batch_, key_length_);
  const ScopedTimer timer(Cost::kAttention);
  Scratch<T>& scratch = pass.memory();
  scratch.d_context.resize(context_.rows(), context_.cols());
  scratch.d_query.resize(q_.rows(), q_.cols());
  scratch.d_key.resize(in.key.rows, k_.cols());
  scratch.d_value.resize(in.key.rows, v_.cols());
  for (const auto& [parameter, of_each] : score_parameters()) {
    of_each->resize(batch_, parameter->value.flat().size());
    of_each->fill(0);
  }

  output_.backward(context_, dy, scratch.d_context);
  const std::size_t kv_heads = form_.n_kv_heads;
  parallel_for(batch_ * kv_heads, row_grain(query_length_ * key_length_ * (n_heads_ / kv_heads)),
               [&](std::size_t i) { attend_backward(i / kv_heads, i % kv_heads, pass); });
  for (const auto& [parameter, of_each] : score_parameters()) {
    kernels::add_column_sums<Value>(
        batch_, of_each->cols(), parameter->gradient.flat(),
        [&, sums = of_each](std::size_t s, std::size_t i) { return (*sums)(s, i); });
  }
  if (latent_) return prepare_latent_backward(in.query, d.query, pass);
  prepare_backward(query_norm_, raw_q_, scratch.d_query, pass);
  prepare_backward(key_norm_, raw_k_, scratch.d_key, pass);
  auto mode = [](bool shared) {
    return shared ? GradientMode::kAccumulate : GradientMode::kOverwrite;
  };
  query_.backward(in.query, scratch.d_query, d.query);
  key_.backward(in.key, scratch.d_key, d.key, mode(d.key.data == d.query.data));
  value_.backward(in.value, scratch.d_value, d.value,
                  mode(d.value.data == d.query.data || d.value.data == d.key.data));
}

/// dv = pᵀ·dc, dp = dc·vᵀ, ds = softmax'(dp), dq = ds·k·scale, dk = dsᵀ·q·scale for the heads that
/// share one head of keys, with p = weights. The last tile has all keys; it runs first and
/// initializes the sums of dk and dv.
template <typename T>
void MultiHeadAttention<T>::attend_backward(std::size_t sequence, std::size_t kv_head,
                                            const Pass<T>& pass) {
  Scratch<T>& scratch = pass.memory();
  auto& memory = TileMemory<T>::get();
  const MatrixView<T> d_key = head(scratch.d_key, sequence, kv_head, form_.n_kv_heads);
  const MatrixView<T> d_value = head(scratch.d_value, sequence, kv_head, form_.n_kv_heads);
  const MatrixView<Value> dk = sums_for(d_key, memory.d_key);
  const MatrixView<Value> dv = sums_for(d_value, memory.d_value);
  const auto scale = static_cast<Value>(form_.score_scale);
  const std::size_t heads = n_heads_ / form_.n_kv_heads;
  Value beta = 0;
  for (std::size_t i = heads * n_tiles(); i-- > 0; beta = 1) {
    const Tile tile = tile_at(i / heads, sequence, kv_head * heads + i % heads, pass);
    const auto dc = queries(scratch.d_context, tile);
    const MatrixView<Value> capped = scores(tile, pass, memory.scores);
    if (form_.soft_cap > 0) {
      memory.capped.resize(capped.rows, capped.cols);
      std::ranges::copy(memory.scores.flat(), memory.capped.flat().begin());
    }
    const MatrixView<Value> p = weigh(tile, pass, capped);
    memory.d_scores.resize(tile.queries, tile.keys);
    const MatrixView<Value> ds = memory.d_scores;

    gemm::gemm<T, Value>({.a = nn::converted<T, Value>(p, memory.factor),
                          .transpose_a = gemm::Transpose::kYes,
                          .b = dc,
                          .c = dv.block(0, 0, tile.keys, dv.cols),
                          .beta = beta});
    gemm::gemm<T, Value>(
        {.a = dc, .b = keys(v_, tile), .transpose_b = gemm::Transpose::kYes, .c = ds});
    for (std::size_t r = 0; r < p.rows; ++r)
      kernels::softmax_row_backward<Value>(p.row(r), ds.row(r));
    scores_backward(tile, pass, memory.capped, ds);
    const MatrixView<const T> ds_factor = nn::converted<T, Value>(ds, memory.factor);
    gemm::gemm<T>(
        {.a = ds_factor, .b = keys(k_, tile), .c = queries(scratch.d_query, tile), .alpha = scale});
    gemm::gemm<T, Value>({.a = ds_factor,
                          .transpose_a = gemm::Transpose::kYes,
                          .b = queries(q_, tile),
                          .c = dk.block(0, 0, tile.keys, dk.cols),
                          .alpha = scale,
                          .beta = beta});
  }
  if constexpr (!kIsArithmetic<T>) {
    kernels::convert<Value, T>(dk, d_key);
    kernels::convert<Value, T>(dv, d_value);
  }
}

/// Adds to the gradients of relative bias and sink, and replaces `ds` by the gradient of
/// q·kᵀ·scale. The derivative of s = c·tanh(x/c) is 1 − (s/c)². Adding a constant to all scores and
/// the sink changes nothing, so the sink's gradient is −Σ ds.
template <typename T>
void MultiHeadAttention<T>::scores_backward(const Tile& tile, const Pass<T>& pass,
                                            const Matrix<Value>& capped, MatrixView<Value> ds) {
  if (form_.relative_bias.active()) {
    const std::span<Value> sums = d_relative_bias_.view().row(tile.sequence);
    for_biases(tile, pass, [&](std::size_t i, std::size_t key, std::size_t bucket) {
      sums[bucket * n_heads_ + tile.head] += ds(i, key);
    });
  }
  for (std::size_t i = 0; form_.has_sinks && i < ds.rows; ++i) {
    for (const Value d : ds.row(i)) d_sinks_(tile.sequence, tile.head) -= d;
  }
  if (form_.soft_cap > 0) {
    const auto cap = static_cast<Value>(form_.soft_cap);
    for (std::size_t i = 0; i < ds.rows; ++i) {
      for (std::size_t key = 0; key < ds.cols; ++key) {
        const Value share = capped(i, key) / cap;
        ds(i, key) *= 1 - share * share;
      }
    }
  }
}

/// Reports the scores of one tile after the other to the probe; hidden keys have −∞.
template <typename T>
void MultiHeadAttention<T>::observe_scores(const Pass<T>& pass) {
  auto& memory = TileMemory<T>::get();
  constexpr Value kHidden = -std::numeric_limits<Value>::infinity();
  const AttentionMask& mask = pass.mask;
  for (std::size_t i = 0; i < batch_ * n_heads_ * n_tiles(); ++i) {
    const std::size_t sequence_head = i / n_tiles();
    const Tile tile =
        tile_at(i % n_tiles(), sequence_head / n_heads_, sequence_head % n_heads_, pass);
    const MatrixView<Value> tile_scores = of_keys(scores(tile, pass, memory.scores), tile.keys);
    for (std::size_t r = 0; r < tile.queries; ++r) {
      const std::size_t query = tile.first + r;
      const auto [first, end] = visible_keys(query, tile.keys, pass);
      for (std::size_t key = 0; key < tile.keys; ++key) {
        const bool padding =
            !mask.key_padding.empty() && mask.key_padding[tile.sequence * key_length_ + key] != 0;
        const bool blocked = !mask.blocked.empty() && mask.blocked[query * key_length_ + key] != 0;
        if (key < first || key >= end || padding || blocked) tile_scores(r, key) = kHidden;
      }
    }
    pass.probe->forward({form_.layer, SublayerKind::kAttention, Point::kScores}, tile_scores);
  }
}

template <typename T>
std::size_t MultiHeadAttention<T>::n_tiles() const {
  return (query_length_ + kTileQueries - 1) / kTileQueries;
}

/// Returns a tile. The last tile has all keys, including those that no query may see: their
/// gradients must become 0.
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

/// Returns the part of `projected` for one sequence and one of its `heads`.
template <typename T>
MatrixView<T> MultiHeadAttention<T>::head(Matrix<T>& projected, std::size_t sequence,
                                          std::size_t head_index, std::size_t heads) const {
  const std::size_t length = projected.rows() / batch_, width = projected.cols() / heads;
  return projected.view().block(sequence * length, head_index * width, length, width);
}

template <typename T>
MatrixView<T> MultiHeadAttention<T>::queries(Matrix<T>& projected, const Tile& tile) const {
  const MatrixView<T> all = head(projected, tile.sequence, tile.head, n_heads_);
  return all.block(tile.first, 0, tile.queries, all.cols);
}

template <typename T>
MatrixView<T> MultiHeadAttention<T>::keys(Matrix<T>& projected, const Tile& tile) const {
  const std::size_t heads = n_heads_ / form_.n_kv_heads;
  const MatrixView<T> all = head(projected, tile.sequence, tile.head / heads, form_.n_kv_heads);
  return all.block(0, 0, tile.keys, all.cols);
}

template <typename T>
void MultiHeadAttention<T>::list_parameters(const std::string& prefix, ParameterList<Value>& list) {
  if (query_latent_) query_latent_->list_parameters(join_names(prefix, "query_latent"), list);
  if (latent_) latent_->list_parameters(join_names(prefix, "latent"), list);
  query_.list_parameters(join_names(prefix, "query"), list);
  key_.list_parameters(join_names(prefix, "key"), list);
  value_.list_parameters(join_names(prefix, "value"), list);
  if (query_norm_) query_norm_->list_parameters(join_names(prefix, "query_norm"), list);
  if (key_norm_) key_norm_->list_parameters(join_names(prefix, "key_norm"), list);
  list_parameter(list, prefix, "relative_bias", relative_bias_);
  list_parameter(list, prefix, "sinks", sinks_);
  output_.list_parameters(join_names(prefix, "output"), list);
}

template class MultiHeadAttention<float>;
template class MultiHeadAttention<double>;
template class MultiHeadAttention<BFloat16>;

}  // namespace addnorm
