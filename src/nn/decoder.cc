#include "addnorm/nn/decoder.h"

#include "base/require.h"
#include "base/time_account.h"
#include "gemm/gemm.h"
#include "kernels/convert.h"
#include "nn/stored.h"

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
  } else {
    store_as<T>(embedding_.token());
  }
}

template <typename T>
MatrixView<Arithmetic<T>> Decoder<T>::forward(std::span<const std::int32_t> tokens,
                                              const Step& step) {
  require(step.batch > 0 && !tokens.empty() && tokens.size() % step.batch == 0,
          "decoder: {} tokens do not make a batch of {}", tokens.size(), step.batch);
  tokens_.assign(tokens.begin(), tokens.end());
  pass_ = {.batch = step.batch,
           .length = tokens.size() / step.batch,
           .mode = step.mode,
           .mask = {.order = AttentionMask::Order::kCausal},
           .dropout_seed = step.dropout_seed,
           .past = step.past,
           .context = step.mode == Mode::kEvaluation ? options_.context : 0,
           .first_row = step.first_row,
           .scratch = &scratch_,
           .probe = step.probe,
           .on_gradients = step.on_gradients};
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
    head_->forward(y_, logits_.view());
  } else {
    const ScopedTimer timer(Cost::kProducts);
    gemm::gemm<T, Value>({.a = y_,
                          .b = stored<T>(embedding_.token()),
                          .transpose_b = gemm::Transpose::kYes,
                          .c = logits_});
  }
  if (step.probe != nullptr) {
    step.probe->forward(outer_site(options_, SublayerKind::kHead), logits_);
  }
  return logits_;
}

template <typename T>
void Decoder<T>::backward(MatrixView<const Value> d_logits) {
  Probe<Value>* probe = pass_.probe;
  pass_.scratch = &scratch_;  // the decoder may have been moved since forward
  if (probe != nullptr) probe->backward(outer_site(options_, SublayerKind::kHead), d_logits);
  gradient_.resize(y_.rows(), y_.cols());
  if constexpr (kIsArithmetic<T>) {
    head_backward(d_logits, gradient_);
    stack_.backward(gradient_, gradient_, pass_);
  } else {
    d_logits_.resize(d_logits.rows, d_logits.cols);
    d_y_.resize(y_.rows(), y_.cols());
    kernels::convert<Value, T>(d_logits, d_logits_);
    head_backward(d_logits_, d_y_);
    stack_.backward(d_y_, gradient_, pass_);
  }
  if (probe != nullptr) probe->backward(outer_site(options_, SublayerKind::kEmbedding), gradient_);
  embedding_.backward(tokens_, gradient_, pass_);
}

template <typename T>
void Decoder<T>::head_backward(MatrixView<const T> d_logits, MatrixView<T> d_y) {
  if (head_) return head_->backward(y_, d_logits, d_y);
  const ScopedTimer timer(Cost::kProducts);
  Parameter<Value>& token = embedding_.token();
  gemm::gemm<T>({.a = d_logits, .b = stored<T>(token), .c = d_y});
  gemm::gemm<T, Value>({.a = d_logits,
                        .transpose_a = gemm::Transpose::kYes,
                        .b = y_,
                        .c = token.gradient,
                        .beta = 1});
}

template <typename T>
ParameterList<Arithmetic<T>> Decoder<T>::parameters() {
  ParameterList<Value> list;
  embedding_.list_parameters("embedding", list);
  stack_.list_parameters("", list);
  if (head_) head_->list_parameters("head", list);
  return list;
}

template class Decoder<float>;
template class Decoder<double>;
template class Decoder<BFloat16>;

}  // namespace addnorm
