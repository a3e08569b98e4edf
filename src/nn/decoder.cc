#include "nn/decoder.h"

#include "base/require.h"
#include "gemm/gemm.h"

namespace addnorm {
namespace {

Site outer_site(const DecoderOptions& options, SublayerKind sublayer) {
  const std::size_t layer = sublayer == SublayerKind::kEmbedding ? 0 : options.placements.size();
  return {layer, sublayer, Point::kOutput, NormSlot::kNone};
}

}  // namespace

template <typename T>
Decoder<T>::Decoder(const DecoderOptions& options)
    : options_(options),
      embedding_(options.vocabulary, options.context, options.block.d_model),
      stack_(options.block, options.placements, options.final_norm) {
  if (options.head == Head::kUntied) {
    head_.emplace(options.block.d_model, options.vocabulary, Bias::kNo);
  }
}

template <typename T>
MatrixView<T> Decoder<T>::forward(std::span<const std::int32_t> tokens, const Step& step) {
  require(step.batch > 0 && !tokens.empty() && tokens.size() % step.batch == 0,
          "decoder: {} tokens do not make a batch of {}", tokens.size(), step.batch);
  tokens_.assign(tokens.begin(), tokens.end());
  pass_ = {.batch = step.batch,
           .length = tokens.size() / step.batch,
           .mode = step.mode,
           .mask = {.order = AttentionMask::Order::kCausal},
           .dropout_seed = step.dropout_seed,
           .scratch = &scratch_,
           .probe = step.probe};
  const std::size_t d_model = options_.block.d_model;
  x_.resize(tokens.size(), d_model);
  y_.resize(tokens.size(), d_model);
  logits_.resize(tokens.size(), options_.vocabulary);

  embedding_.forward(tokens, x_, pass_);
  if (step.probe != nullptr) {
    step.probe->forward(outer_site(options_, SublayerKind::kEmbedding), x_);
  }
  stack_.forward(x_, y_, pass_);
  if (head_) {
    head_->forward(y_, logits_);
  } else {
    gemm<T>({.a = y_, .b = embedding_.token().value, .transpose_b = Transpose::kYes, .c = logits_});
  }
  if (step.probe != nullptr) {
    step.probe->forward(outer_site(options_, SublayerKind::kHead), logits_);
  }
  return logits_;
}

template <typename T>
void Decoder<T>::backward(MatrixView<const T> d_logits) {
  Probe<T>* probe = pass_.probe;
  pass_.scratch = &scratch_;  // the decoder may have been moved since forward
  if (probe != nullptr) probe->backward(outer_site(options_, SublayerKind::kHead), d_logits);
  gradient_.resize(y_.rows(), y_.cols());
  if (head_) {
    head_->backward(y_, d_logits, gradient_);
  } else {
    Parameter<T>& token = embedding_.token();
    gemm<T>({.a = d_logits, .b = token.value, .c = gradient_});
    gemm<T>(
        {.a = d_logits, .transpose_a = Transpose::kYes, .b = y_, .c = token.gradient, .beta = 1});
  }
  stack_.backward(gradient_, pass_);
  if (probe != nullptr) probe->backward(outer_site(options_, SublayerKind::kEmbedding), gradient_);
  embedding_.backward(tokens_, gradient_, pass_);
}

template <typename T>
ParameterList<T> Decoder<T>::parameters() {
  ParameterList<T> list;
  embedding_.list_parameters("embedding", list);
  stack_.list_parameters("", list);
  if (head_) head_->list_parameters("head", list);
  return list;
}

template class Decoder<float>;
template class Decoder<double>;

}  // namespace addnorm
