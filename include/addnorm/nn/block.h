#pragma once

#include <cstddef>
#include <string>

#include "addnorm/nn/add_norm.h"
#include "addnorm/nn/attention.h"
#include "addnorm/nn/feed_forward.h"

namespace addnorm {

/// The sizes, sublayers and norms of a block.
struct BlockOptions {
  std::size_t d_model = 0;
  std::size_t n_heads = 1;
  std::size_t d_ff = 0;
  FeedForwardKind feed_forward = FeedForwardKind::kGelu;
  ExpertForm experts = {};
  NormOptions norm = {};
  Affine affine = Affine::kGammaBeta;
  Bias bias = Bias::kYes;  ///< of the linear layers
  double dropout = 0;      ///< on each branch
  AttentionForm attention = {};
  std::size_t lanes = 0;  ///< of the stream before the block; 0: the placement's number
};

/// One Transformer block: attention, then feed-forward, each within its Add & Norm, or both within
/// one (Sublayers::kParallel).
template <typename T>
class Block {
  static_assert(check_module<T>());

 public:
  ADDNORM_API Block(const BlockOptions& options, const BlockPlacement& placement, Depth depth);

  /// Runs both sublayers on the stream.
  ADDNORM_API void forward(ResidualStream<T>& stream, const Pass<T>& pass);
  /// Replaces the gradient of the stream after the block by that of the stream before it.
  ADDNORM_API void backward(StreamGradient<T>& gradient, const Pass<T>& pass);
  void backward(MatrixView<Arithmetic<T>> gradient, const Pass<T>& pass) {
    StreamGradient<T> of_one_lane(gradient);
    backward(of_one_lane, pass);
  }

  ADDNORM_API void list_parameters(const std::string& prefix, ParameterList<Arithmetic<T>>& list);
  MultiHeadAttention<T>& attention() { return attention_; }
  FeedForward<T>& feed_forward() { return feed_forward_; }
  AddNorm<T>& attention_add_norm() { return attention_add_norm_; }
  AddNorm<T>& feed_forward_add_norm() { return feed_forward_add_norm_; }
  bool is_parallel() const { return parallel_; }
  /// Returns the number of lanes of the stream after the block.
  std::size_t lanes_after() const { return feed_forward_add_norm_.lanes_after(); }

 private:
  MultiHeadAttention<T> attention_;
  AddNorm<T> attention_add_norm_;
  FeedForward<T> feed_forward_;
  AddNorm<T> feed_forward_add_norm_;
  bool parallel_;
  Matrix<T> memory_;  // output of parallel sublayers
};

}  // namespace addnorm
