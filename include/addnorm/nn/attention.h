#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "addnorm/nn/linear.h"
#include "addnorm/nn/norm.h"
#include "addnorm/nn/pass.h"
#include "addnorm/nn/relative_bias.h"

namespace addnorm {

enum class Rotation;

/// Returns the frequencies of a rotary position embedding: base^(−2i/d_head) for i < d_head/2 (Su
/// et al. 2021).
ADDNORM_API std::vector<double> rope_frequencies(double base, std::size_t d_head);

/// The pairs of features that a rotary embedding rotates. Among n rotated features, the partners
/// are i and i + n/2 (Llama), or 2i and 2i + 1 (Su et al. 2021, GLM).
enum class RotaryPairs { kHalves, kNeighbors };

/// The query-key norm: none, over each head, or over all heads together (Henry et al. 2020).
enum class QkNorm { kNone, kHead, kAllHeads };

/// Latent attention (DeepSeek-V2, section 2.1). Keys and values are projected from a latent vector
/// of the token, c = norm(Wc·x); queries optionally too. The rotated features of a key are one
/// projection of x, shared by all heads. They follow the features from the latent vector in each
/// head.
struct LatentForm {
  std::size_t rank = 0;        ///< features of c; 0: keys and values are projected from x
  std::size_t query_rank = 0;  ///< likewise for the queries; 0: they are projected from x

  bool active() const { return rank > 0; }
};

/// Variants of attention; the defaults are those of Vaswani et al. 2017.
struct AttentionForm {
  /// The number of key-value heads, each shared by a group of query heads (Ainslie et al. 2023); 0:
  /// n_heads.
  std::size_t n_kv_heads = 0;
  std::size_t d_head = 0;   ///< 0: d_model/n_heads
  std::size_t d_value = 0;  ///< features of a head's values; 0: d_head
  LatentForm latent = {};
  Bias qkv_bias = Bias::kNo;  ///< of query, key and value, if the block's layers have no bias
  double score_scale = 0;     ///< factor of q·k; 0: 1/√d_head
  double soft_cap = 0;        ///< c: scores become c·tanh(score/c) (Gemma 2); 0: no cap
  std::size_t window = 0;     ///< number of keys that a causal query sees, its own last; 0: all
  /// Rotary frequencies of queries and keys; empty: no rotation. A head has two rotated features
  /// for each frequency; its other features stay unchanged.
  std::vector<double> rope;
  RotaryPairs rotary_pairs = RotaryPairs::kHalves;
  double rotary_gain = 1;           ///< factor of the rotated features (YaRN's attention factor)
  QkNorm qk_norm = QkNorm::kNone;   ///< on queries and keys, before the rotation
  NormOptions norm = {};            ///< of qk_norm or of latent vectors; it has only γ
  RelativeBias relative_bias = {};  ///< added to the scores
  /// Whether each head has a learned score that joins the softmax without a value (gpt-oss). The
  /// weights then sum to less than 1.
  bool has_sinks = false;
  std::size_t layer = 0;  ///< for probes
};

/// Multi-head attention (Vaswani et al. 2017, section 3.2):
///
///     head_i = softmax(Q_i·K_iᵀ/√d_head + mask)·V_i,  y = concat(head_i)·Woᵀ + bo
///
/// with Q = query·Wqᵀ + bq and so on. As a Sublayer it is self-attention. If it reads three mixes
/// of lanes, they are the inputs of values, keys and queries. The weights are computed for a tile
/// of queries and not stored; backward recomputes them. Keys and values are stored; with Pass::past
/// the new tokens are appended.
template <typename T>
class MultiHeadAttention : public Sublayer<T> {
  static_assert(check_module<T>());

 public:
  using Value = Arithmetic<T>;

  ADDNORM_API MultiHeadAttention(std::size_t d_model, std::size_t n_heads, Bias bias = Bias::kYes,
                                 const AttentionForm& form = {});

  /// The inputs of the three projections.
  struct Inputs {
    MatrixView<const T> query = {};  ///< batch × query length rows of d_model
    MatrixView<const T> key = {};    ///< batch × key length rows
    MatrixView<const T> value = {};  ///< batch × key length rows
  };
  /// The gradients of the inputs.
  struct Gradients {
    MatrixView<T> query = {}, key = {}, value = {};  ///< gradients in the same memory are added up
  };
  /// y = attention(in), batch × query length rows of d_model.
  ADDNORM_API void forward(const Inputs& in, MatrixView<T> y, const Pass<T>& pass);
  /// Adds to the parameters' gradients. It must follow a forward with the same `in` and pass.
  ADDNORM_API void backward(const Inputs& in, MatrixView<const T> dy, const Gradients& d,
                            const Pass<T>& pass);

  void forward(MatrixView<const T> x, MatrixView<T> y, const Pass<T>& pass) override {
    forward(three_of<Inputs>(x, pass), y, pass);
  }
  void backward(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx,
                const Pass<T>& pass) override {
    backward(three_of<Inputs>(x, pass), dy, three_of<Gradients>(dx, pass), pass);
  }

  ADDNORM_API void list_parameters(const std::string& prefix, ParameterList<Value>& list);
  Linear<T>& query() { return query_; }
  Linear<T>& key() { return key_; }
  Linear<T>& value() { return value_; }
  Linear<T>& output() { return output_; }
  /// The projections from x to latent vectors. The keys' one also computes the rotated features,
  /// which follow the latent vector.
  std::optional<Linear<T>>& query_latent() { return query_latent_; }
  std::optional<Linear<T>>& latent() { return latent_; }
  std::optional<Norm<T, T>>& query_norm() { return query_norm_; }
  std::optional<Norm<T, T>>& key_norm() { return key_norm_; }
  /// buckets × heads; empty if there is no relative bias.
  Parameter<Value>& relative_bias() { return relative_bias_; }
  /// One value for each head; empty if there are no sinks.
  Parameter<Value>& sinks() { return sinks_; }

 private:
  /// Consecutive queries of one head, and the first keys, the only ones that they may see.
  struct Tile {
    std::size_t sequence, head;
    std::size_t first, queries, keys;
  };

  /// Returns the three inputs (or gradients) that `all` holds: one matrix for all three, or values,
  /// keys and queries one below the other.
  template <typename Three, typename V>
  static Three three_of(MatrixView<V> all, const Pass<T>& pass) {
    const std::size_t rows = pass.rows();
    if (all.rows != 3 * rows) return {all, all, all};
    return {.query = all.block(2 * rows, 0, rows, all.cols),
            .key = all.block(rows, 0, rows, all.cols),
            .value = all.block(0, 0, rows, all.cols)};
  }

  std::size_t n_tiles() const;
  void check(const Inputs& in, const Pass<T>& pass) const;
  MatrixView<T> fed(Matrix<T>& projected, std::size_t sequence, std::size_t length,
                    const Pass<T>& pass) const;
  void project(const Linear<T>& linear, MatrixView<const T> x, Matrix<T>& projected,
               const Pass<T>& pass) const;
  void prepare(const Linear<T>& linear, std::optional<Norm<T, T>>& norm, MatrixView<const T> x,
               Matrix<T>& raw, Matrix<T>& projected, const Pass<T>& pass);
  void prepare_backward(std::optional<Norm<T, T>>& norm, Matrix<T>& raw, Matrix<T>& d,
                        const Pass<T>& pass);
  void rotate_heads(Rotation direction, Matrix<T>& projected, std::size_t length,
                    const Pass<T>& pass) const;
  void prepare_latent(MatrixView<const T> x, const Pass<T>& pass);
  void prepare_latent_backward(MatrixView<const T> x, MatrixView<T> dx, const Pass<T>& pass);
  void rotate_last(Rotation direction, MatrixView<T> heads, std::size_t width) const;
  std::size_t d_turning() const { return 2 * form_.rope.size(); }
  Tile tile_at(std::size_t index, std::size_t sequence, std::size_t head,
               const Pass<T>& pass) const;
  MatrixView<T> head(Matrix<T>& projected, std::size_t sequence, std::size_t head,
                     std::size_t heads) const;
  MatrixView<T> queries(Matrix<T>& projected, const Tile& tile) const;
  MatrixView<T> keys(Matrix<T>& projected, const Tile& tile) const;
  std::pair<std::size_t, std::size_t> visible_keys(std::size_t query, std::size_t keys,
                                                   const Pass<T>& pass) const;
  template <typename Body>
  void for_biases(const Tile& tile, const Pass<T>& pass, const Body& body) const;
  MatrixView<Value> scores(const Tile& tile, const Pass<T>& pass, Matrix<Value>& memory);
  MatrixView<Value> weigh(const Tile& tile, const Pass<T>& pass, MatrixView<Value> scores) const;
  void attend(const Tile& tile, const Pass<T>& pass);
  void attend_backward(std::size_t sequence, std::size_t kv_head, const Pass<T>& pass);
  void scores_backward(const Tile& tile, const Pass<T>& pass, const Matrix<Value>& capped,
                       MatrixView<Value> ds);
  void observe_scores(const Pass<T>& pass);
  /// The parameters of the scores, and each sequence's share of their gradients.
  std::array<std::pair<Parameter<Value>*, Matrix<Value>*>, 2> score_parameters() {
    return {{{&relative_bias_, &d_relative_bias_}, {&sinks_, &d_sinks_}}};
  }

  std::size_t d_model_;
  std::size_t n_heads_;
  AttentionForm form_;  // with every default 0 replaced by its value
  std::optional<Linear<T>> query_latent_, latent_;
  Linear<T> query_, key_, value_, output_;
  std::optional<Norm<T, T>> query_norm_, key_norm_;
  Parameter<Value> relative_bias_, sinks_;

  std::size_t batch_ = 1;
  std::size_t query_length_ = 0;
  std::size_t key_length_ = 0;     // of all keys, including past ones
  std::size_t fed_ = 0;            // number of keys stored from earlier pieces of a sequence
  Matrix<T> q_, k_, v_;            // rows × heads·d_head; head h has columns h·d_head …
  Matrix<T> raw_q_, raw_k_;        // inputs of query_norm_ and key_norm_
  Matrix<T> latent_q_, latent_k_;  // norms' outputs for latent vectors
  Matrix<T> context_;              // rows × heads·d_head
  Matrix<Value> d_relative_bias_, d_sinks_;  // of each sequence
};

}  // namespace addnorm
