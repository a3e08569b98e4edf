#include <algorithm>

#include "addnorm/nn/attention.h"
#include "base/parallel.h"
#include "nn/rope.h"

namespace addnorm {

/// Rotates the last features of each head of `width`.
template <typename T>
void MultiHeadAttention<T>::rotate_last(Rotation direction, MatrixView<T> heads,
                                        std::size_t width) const {
  const std::size_t first = width - d_turning(), length = heads.rows / batch_;
  const Rotary rotary{form_.rope, width, form_.rotary_pairs, form_.rotary_gain};
  for (std::size_t s = 0; s < batch_; ++s) {
    rotate<T>(rotary, 0, direction, heads.block(s * length, first, length, heads.cols - first));
  }
}

/// Computes queries, keys and values from latent vectors.
template <typename T>
void MultiHeadAttention<T>::prepare_latent(MatrixView<const T> x, const Pass<T>& pass) {
  const std::size_t rank = form_.latent.rank, fixed = form_.d_head - d_turning();
  if (query_latent_) {
    raw_q_.resize(x.rows, form_.latent.query_rank);
    latent_q_.resize(x.rows, form_.latent.query_rank);
    query_latent_->forward(x, raw_q_.view());
    query_norm_->forward({.x = raw_q_}, {}, latent_q_, pass);
  }
  query_.forward(query_latent_ ? latent_q_.view() : x, q_.view());
  rotate_last(Rotation::kForward, q_, form_.d_head);

  raw_k_.resize(x.rows, rank + d_turning());
  latent_k_.resize(x.rows, rank);
  latent_->forward(x, raw_k_.view());
  key_norm_->forward({.x = raw_k_.view().block(0, 0, x.rows, rank)}, {}, latent_k_, pass);
  rotate_last(Rotation::kForward, raw_k_, raw_k_.cols());
  value_.forward(latent_k_, v_.view());
  for (std::size_t h = 0; h < n_heads_; ++h) {
    key_.forward(latent_k_, k_.view().block(0, h * form_.d_head, x.rows, fixed), h);
  }
  parallel_for(x.rows, row_grain(k_.cols()), [&](std::size_t r) {
    const auto turning = raw_k_.view().row(r).subspan(rank);
    for (std::size_t h = 0; h < n_heads_; ++h) {
      std::ranges::copy(turning, &k_(r, h * form_.d_head + fixed));
    }
  });
}

/// Computes dx from the gradients of queries, keys and values.
template <typename T>
void MultiHeadAttention<T>::prepare_latent_backward(MatrixView<const T> x, MatrixView<T> dx,
                                                    const Pass<T>& pass) {
  Scratch<T>& scratch = pass.memory();
  const std::size_t rank = form_.latent.rank, fixed = form_.d_head - d_turning();
  scratch.d_raw.resize(x.rows, rank + d_turning());
  scratch.d_latent.resize(x.rows, rank);
  value_.backward(latent_k_, scratch.d_value, scratch.d_latent);
  for (std::size_t h = 0; h < n_heads_; ++h) {
    key_.backward(latent_k_, scratch.d_key.view().block(0, h * form_.d_head, x.rows, fixed),
                  scratch.d_latent, GradientMode::kAccumulate, h);
  }
  key_norm_->backward({.s = raw_k_.view().block(0, 0, x.rows, rank),
                       .dy = scratch.d_latent,
                       .dx = scratch.d_raw.view().block(0, 0, x.rows, rank)},
                      pass);
  parallel_for(x.rows, row_grain(k_.cols()), [&](std::size_t r) {
    for (std::size_t i = 0; i < d_turning(); ++i) {
      Value sum = 0;
      for (std::size_t h = 0; h < n_heads_; ++h) {
        sum += static_cast<Value>(scratch.d_key(r, h * form_.d_head + fixed + i));
      }
      scratch.d_raw(r, rank + i) = static_cast<T>(sum);
    }
  });
  rotate_last(Rotation::kBack, scratch.d_raw, scratch.d_raw.cols());
  latent_->backward(x, scratch.d_raw, dx);

  rotate_last(Rotation::kBack, scratch.d_query, form_.d_head);
  if (!query_latent_) return query_.backward(x, scratch.d_query, dx, GradientMode::kAccumulate);
  scratch.d_latent.resize(x.rows, form_.latent.query_rank);
  query_.backward(latent_q_, scratch.d_query, scratch.d_latent);
  query_norm_->backward({.s = raw_q_, .dy = scratch.d_latent, .dx = scratch.d_latent}, pass);
  query_latent_->backward(x, scratch.d_latent, dx, GradientMode::kAccumulate);
}

#define ADDNORM_INSTANTIATE(T)                                                                     \
  template void MultiHeadAttention<T>::prepare_latent(MatrixView<const T>, const Pass<T>&);        \
  template void MultiHeadAttention<T>::prepare_latent_backward(MatrixView<const T>, MatrixView<T>, \
                                                               const Pass<T>&);
ADDNORM_INSTANTIATE(float)
ADDNORM_INSTANTIATE(double)
ADDNORM_INSTANTIATE(BFloat16)
#undef ADDNORM_INSTANTIATE

}  // namespace addnorm
