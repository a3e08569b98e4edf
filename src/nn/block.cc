#include "addnorm/nn/block.h"

#include "base/require.h"

namespace addnorm {
namespace {

AddNormOptions add_norm_options(const BlockOptions& options, Depth depth, SublayerKind sublayer,
                                std::size_t lanes) {
  return {.d_model = options.d_model,
          .norm = options.norm,
          .affine = options.affine,
          .dropout = options.dropout,
          .depth = depth,
          .sublayer = sublayer,
          .lanes = lanes};
}

AttentionForm attention_form(const BlockOptions& options, Depth depth) {
  AttentionForm form = options.attention;
  form.layer = depth.layer - 1;
  return form;
}

/// y = F₁(x) + F₂(x)
template <typename T>
class Both final : public Sublayer<T> {
 public:
  Both(Sublayer<T>& first, Sublayer<T>& second, Matrix<T>& memory)
      : first_(first), second_(second), memory_(memory) {}

  void forward(MatrixView<const T> x, MatrixView<T> y, const Pass<T>& pass) override {
    memory_.resize(x.rows, x.cols);
    first_.forward(x, y, pass);
    second_.forward(x, memory_, pass);
    residual_add<T>({.x = y, .branch = memory_}, y);
  }
  void backward(MatrixView<const T> x, MatrixView<const T> dy, MatrixView<T> dx,
                const Pass<T>& pass) override {
    memory_.resize(x.rows, x.cols);
    first_.backward(x, dy, dx, pass);
    second_.backward(x, dy, memory_, pass);
    residual_add<T>({.x = dx, .branch = memory_}, dx);
  }

 private:
  Sublayer<T>&first_, &second_;
  Matrix<T>& memory_;
};

}  // namespace

template <typename T>
Block<T>::Block(const BlockOptions& options, const BlockPlacement& placement, Depth depth)
    : attention_(options.d_model, options.n_heads, options.bias, attention_form(options, depth)),
      attention_add_norm_(placement.attention,
                          add_norm_options(options, depth, SublayerKind::kAttention,
                                           starting_lanes(placement.attention, options.lanes))),
      feed_forward_(options.d_model, options.d_ff, options.feed_forward, options.bias,
                    options.experts),
      feed_forward_add_norm_(placement.feed_forward,
                             add_norm_options(options, depth, SublayerKind::kFeedForward,
                                              starting_lanes(placement.feed_forward,
                                                             attention_add_norm_.lanes_after()))),
      parallel_(placement.attention.sublayers == Sublayers::kParallel) {
  const bool both = placement.feed_forward.sublayers == placement.attention.sublayers;
  require(both,
          "block: placement \"{}\" has both sublayers side by side, cannot be mixed with \"{}\"",
          parallel_ ? placement.attention.name : placement.feed_forward.name,
          parallel_ ? placement.feed_forward.name : placement.attention.name);
}

template <typename T>
void Block<T>::forward(ResidualStream<T>& stream, const Pass<T>& pass) {
  if (parallel_) {
    Both<T> both(attention_, feed_forward_, memory_);
    return attention_add_norm_.forward(stream, both, pass);
  }
  attention_add_norm_.forward(stream, attention_, pass);
  feed_forward_add_norm_.forward(stream, feed_forward_, pass);
}

template <typename T>
void Block<T>::backward(StreamGradient<T>& gradient, const Pass<T>& pass) {
  if (parallel_) {
    Both<T> both(attention_, feed_forward_, memory_);
    return attention_add_norm_.backward(gradient, both, pass);
  }
  feed_forward_add_norm_.backward(gradient, feed_forward_, pass);
  attention_add_norm_.backward(gradient, attention_, pass);
}

template <typename T>
void Block<T>::list_parameters(const std::string& prefix, ParameterList<Arithmetic<T>>& list) {
  attention_.list_parameters(join_names(prefix, "attention"), list);
  attention_add_norm_.list_parameters(join_names(prefix, "attention_add_norm"), list);
  feed_forward_.list_parameters(join_names(prefix, "feed_forward"), list);
  if (parallel_) return;
  feed_forward_add_norm_.list_parameters(join_names(prefix, "feed_forward_add_norm"), list);
}

template class Block<float>;
template class Block<double>;
template class Block<BFloat16>;

}  // namespace addnorm
