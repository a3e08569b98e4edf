#pragma once

#include <cstddef>
#include <string>

#include "nn/linear.h"
#include "nn/pass.h"

namespace addnorm {

/// Multi-head attention (Vaswani et al. 2017, section 3.2):
///   head_i = softmax(Q_i·K_iᵀ/√d_head + mask)·V_i,  y = concat(head_i)·Woᵀ + bo
/// with Q = query·Wqᵀ + bq and so on. As a Sublayer it is self-attention. The weights are made for
/// some queries at a time and not kept: backward makes them again. Keys and values are kept, and
/// with Pass::past those of the tokens fed now stand behind them.
template <typename T>
class MultiHeadAttention : public Sublayer<T> {
 public:
  using Value = Arithmetic<T>;

  MultiHeadAttention(std::size_t d_model, std::size_t n_heads, Bias bias = Bias::kYes);

  struct Inputs {
    MatrixView<const T> query;  ///< batch × query length rows of d_model
    MatrixView<const T> key;    ///< batch × key length rows
    MatrixView<const T> value;  ///< batch × key length rows
  };
  struct Gradients {
    MatrixView<T> query, key, value;  ///< those that are the same memory are added up
  };
  void forward(const Inputs& in, MatrixView<T> y, const Pass<T>& pass);
  void backward(const Inputs& in, MatrixView<const T> dy, const Gradients& d, const Pass<T>& pass);

  void forward(MatrixView<const T> x, MatrixView<T> y, const Pass<T>& pass) override {
    forward({x, x, x}, y, pass);
  }
  void backward(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx,
                const Pass<T>& pass) override {
    backward({x, x, x}, dy, {dx, dx, dx}, pass);
  }

  void list_parameters(const std::string& prefix, ParameterList<Value>& list);
  Linear<T>& query() { return query_; }
  Linear<T>& key() { return key_; }
  Linear<T>& value() { return value_; }
  Linear<T>& output() { return output_; }

 private:
  /// Consecutive queries of one head, and the first keys, which are all that they may see.
  struct Tile {
    std::size_t sequence, head;
    std::size_t first, queries, keys;
  };

  Value score_scale() const;  // 1/√d_head
  std::size_t n_tiles() const;
  void check(const Inputs& in, const Pass<T>& pass) const;
  void project(const Linear<T>& linear, MatrixView<const T> x, Matrix<T>& projected,
               const Pass<T>& pass) const;
  Tile tile_at(std::size_t index, std::size_t sequence, std::size_t head,
               const Pass<T>& pass) const;
  MatrixView<T> head(Matrix<T>& projected, std::size_t sequence, std::size_t head) const;
  MatrixView<T> queries(Matrix<T>& projected, const Tile& tile) const;
  MatrixView<T> keys(Matrix<T>& projected, const Tile& tile) const;
  MatrixView<Value> weights(const Tile& tile, const Pass<T>& pass, Matrix<Value>& memory);
  void attend(const Tile& tile, const Pass<T>& pass);
  void attend_backward(std::size_t sequence, std::size_t head, const Pass<T>& pass);

  std::size_t d_model_;
  std::size_t n_heads_;
  Linear<T> query_, key_, value_, output_;

  std::size_t batch_ = 1;
  std::size_t query_length_ = 0;
  std::size_t key_length_ = 0;  // of all keys, past ones too
  std::size_t fed_ = 0;         // keys that a further piece may follow
  Matrix<T> q_, k_, v_;         // rows × d_model; head h has columns h·d_head …
  Matrix<T> context_;           // rows × d_model
};

}  // namespace addnorm
