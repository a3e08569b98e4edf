#include "train/trainer.h"

#include <cmath>
#include <limits>

#include "nn/initialize.h"
#include "train/cross_entropy.h"

namespace addnorm {

template <typename T>
Trainer<T>::Trainer(Decoder<T>& decoder, const ByteText& text, const TrainerOptions& options)
    : decoder_(decoder),
      text_(text),
      options_(options),
      parameters_(decoder.parameters()),
      adamw_(parameters_, options.adamw),
      generator_(options.seed),
      inputs_(options.batch * decoder.options().context),
      targets_(inputs_.size()) {
  TorchGenerator generator(options_.seed);
  text_.sample(generator, inputs_, targets_);
  initialize_admin<T>(decoder_, inputs_, options_.batch);
}

template <typename T>
double Trainer<T>::step() {
  text_.sample(generator_, inputs_, targets_);
  const double loss =
      forward_backward({.batch = options_.batch, .dropout_seed = (options_.seed << 32) + steps_});
  if (std::isfinite(loss)) adamw_.step(options_.learning_rate.at(steps_));
  ++steps_;
  return loss;
}

template <typename T>
double Trainer<T>::run(std::size_t steps, const std::function<void(double)>& on_step) {
  constexpr std::size_t kValidationBatches = 8;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (std::size_t s = 0; s < steps; ++s) {
    const double loss = step();
    if (on_step) on_step(loss);
    if (!std::isfinite(loss)) return kInfinity;
  }
  const double loss = validate(kValidationBatches);
  return std::isfinite(loss) ? loss : kInfinity;
}

template <typename T>
double Trainer<T>::probe(Probe<T>& probe) {
  TorchGenerator generator(options_.seed);
  text_.sample(generator, inputs_, targets_);
  return forward_backward({.batch = options_.batch, .mode = Mode::kEvaluation, .probe = &probe});
}

template <typename T>
double Trainer<T>::forward_backward(const typename Decoder<T>::Step& step) {
  zero_gradients(parameters_);
  const MatrixView<T> logits = decoder_.forward(inputs_, step);
  const double loss = cross_entropy<T>(logits, targets_, logits);
  decoder_.backward(logits);
  return loss;
}

template <typename T>
double Trainer<T>::validate(std::size_t batches) {
  const std::size_t size = inputs_.size();
  std::vector<std::int32_t> inputs(batches * size);
  std::vector<std::int32_t> targets(batches * size);
  text_.validation(inputs, targets);
  double loss = 0;
  for (std::size_t b = 0; b < batches; ++b) {
    const auto part = [&](std::span<const std::int32_t> all) {
      return all.subspan(b * size, size);
    };
    const MatrixView<T> logits =
        decoder_.forward(part(inputs), {.batch = options_.batch, .mode = Mode::kEvaluation});
    loss += cross_entropy<T>(logits, part(targets), {});
  }
  return loss / static_cast<double>(batches);
}

template class Trainer<float>;
template class Trainer<double>;

}  // namespace addnorm
