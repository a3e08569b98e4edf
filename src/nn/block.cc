#include "addnorm/nn/block.h"

namespace addnorm {
namespace {

AddNormOptions add_norm_options(const BlockOptions& options, Depth depth, SublayerKind sublayer) {
  return {.d_model = options.d_model,
          .norm = options.norm,
          .affine = options.affine,
          .dropout = options.dropout,
          .depth = depth,
          .sublayer = sublayer};
}

AttentionForm attention_form(const BlockOptions& options, Depth depth) {
  AttentionForm form = options.attention;
  form.layer = depth.layer - 1;
  return form;
}

}  // namespace

template <typename T>
Block<T>::Block(const BlockOptions& options, const BlockPlacement& placement, Depth depth)
    : attention_(options.d_model, options.n_heads, options.bias, attention_form(options, depth)),
      attention_add_norm_(placement.attention,
                          add_norm_options(options, depth, SublayerKind::kAttention)),
      feed_forward_(options.d_model, options.d_ff, options.feed_forward, options.bias),
      feed_forward_add_norm_(placement.feed_forward,
                             add_norm_options(options, depth, SublayerKind::kFeedForward)) {}

template <typename T>
void Block<T>::forward(ResidualStream<T>& stream, const Pass<T>& pass) {
  attention_add_norm_.forward(stream, attention_, pass);
  feed_forward_add_norm_.forward(stream, feed_forward_, pass);
}

template <typename T>
void Block<T>::backward(MatrixView<Arithmetic<T>> gradient, const Pass<T>& pass) {
  feed_forward_add_norm_.backward(gradient, feed_forward_, pass);
  attention_add_norm_.backward(gradient, attention_, pass);
}

template <typename T>
void Block<T>::list_parameters(const std::string& prefix, ParameterList<Arithmetic<T>>& list) {
  attention_.list_parameters(join_names(prefix, "attention"), list);
  attention_add_norm_.list_parameters(join_names(prefix, "attention_add_norm"), list);
  feed_forward_.list_parameters(join_names(prefix, "feed_forward"), list);
  feed_forward_add_norm_.list_parameters(join_names(prefix, "feed_forward_add_norm"), list);
}

template class Block<float>;
template class Block<double>;
template class Block<BFloat16>;

}  // namespace addnorm
