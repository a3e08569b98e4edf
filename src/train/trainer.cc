#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numbers>

#include "addnorm/nn/initialize.h"
#include "addnorm/train/cross_entropy.h"
#include "base/require.h"
#include "base/time_account.h"

namespace addnorm::train {

namespace {

/// Returns the buckets: each block's parameters, then the final norm and head, then the embeddings.
/// The gradients of a bucket are complete at the same time in backward.
template <typename T>
std::vector<ParameterList<Arithmetic<T>>> buckets(Decoder<T>& decoder) {
  Stack<T>& stack = decoder.stack();
  const std::size_t layers = stack.blocks().size();
  std::vector<ParameterList<Arithmetic<T>>> all(layers + 2);
  for (std::size_t i = 0; i < layers; ++i) stack.blocks()[i].list_parameters("", all[i]);
  stack.ends().list_exit_parameters("", all[layers]);
  if (stack.final_norm()) stack.final_norm()->list_parameters("", all[layers]);
  if (decoder.head()) decoder.head()->list_parameters("", all[layers]);
  stack.ends().list_entry_parameters("", all[layers + 1]);
  decoder.embedding().list_parameters("", all[layers + 1]);
  return all;
}

}  // namespace

template <typename T>
Trainer<T>::Trainer(Decoder<T>& decoder, const ByteText& text, const TrainerOptions& options)
    : decoder_(decoder),
      text_(text),
      options_(options),
      parameters_(decoder.parameters()),
      adamw_(parameters_, options.adamw),
      generator_(options.seed),
      inputs_(options.batch * decoder.options().context),
      targets_(inputs_.size()),
      windows_(options.batch / options.world->size()) {
  require(windows_ * options.world->size() == options.batch,
          "trainer: a batch of {} windows cannot be shared equally by {} processes", options.batch,
          options.world->size());
  if (options.world->size() > 1) gradient_sum_.emplace(*options.world, buckets(decoder));
  TorchGenerator generator(options_.seed);
  text_.sample(generator, inputs_, targets_);
  initialize_admin<T>(decoder_, inputs_, options_.batch);
}

double LearningRate::at(std::size_t step) const {
  if (step < warm_up) return peak * static_cast<double>(step + 1) / static_cast<double>(warm_up);
  if (decay == Decay::kNone || steps <= warm_up) return peak;
  const double way =
      std::min(1.0, static_cast<double>(step - warm_up) / static_cast<double>(steps - warm_up));
  const double left =
      decay == Decay::kLinear ? 1 - way : (1 + std::cos(std::numbers::pi * way)) / 2;
  return peak * (last_share + (1 - last_share) * left);
}

/// Runs forward and backward on the batches of a step. Returns their mean loss, and leaves the sum
/// of their gradients.
template <typename T>
double Trainer<T>::accumulate(Probe<Value>* probe) {
  const std::size_t batches = options_.accumulate;
  {
    const ScopedTimer timer(Cost::kOptimizer);
    zero_gradients(parameters_);
  }
  const GradientsReady start_sum = [this](std::size_t layer) { gradient_sum_->start(layer); };
  const bool sums = gradient_sum_ && probe == nullptr;
  double loss = 0;
  for (std::size_t b = 0; b < batches; ++b) {
    text_.sample(generator_, inputs_, targets_);
    loss += forward_backward({.dropout_seed = (options_.seed << 32) + steps_ * batches + b,
                              .probe = probe,
                              .on_gradients = sums && b + 1 == batches ? &start_sum : nullptr});
  }
  if (sums) {
    gradient_sum_->start(decoder_.stack().blocks().size() + 1);  // the embeddings come last
    gradient_sum_->finish();
  }
  return options_.world->sum(loss) / static_cast<double>(batches * options_.world->size());
}

template <typename T>
double Trainer<T>::step() {
  const double loss = accumulate();
  const double share = 1 / static_cast<double>(options_.accumulate);
  gradient_norm_ = share * adamw_.gradient_norm();
  if (std::isfinite(loss) && std::isfinite(gradient_norm_)) {
    const bool is_too_large = options_.clip > 0 && gradient_norm_ > options_.clip;
    const double scale = is_too_large ? options_.clip / gradient_norm_ : 1;
    adamw_.step(options_.learning_rate.at(steps_), share * scale);
  }
  ++steps_;
  return loss;
}

template <typename T>
void Trainer<T>::repeat_step(Probe<Value>& probe) {
  require(steps_ > 0, "trainer: there has been no step to repeat");
  go_to(steps_ - 1);
  accumulate(&probe);
  ++steps_;
}

template <typename T>
std::vector<NamedMatrix<Arithmetic<T>>> Trainer<T>::state() {
  std::vector<NamedMatrix<Value>> all;
  for (const auto& [name, parameter] : parameters_) all.push_back({name, &parameter->value});
  std::ranges::move(adamw_.state(), std::back_inserter(all));
  return all;
}

template <typename T>
void Trainer<T>::resume(std::size_t steps) {
  round_parameters(parameters_);
  adamw_.resume(steps);
  go_to(steps);
}

/// Makes the next windows those of step `steps`.
template <typename T>
void Trainer<T>::go_to(std::size_t steps) {
  steps_ = steps;
  generator_ = TorchGenerator(options_.seed);
  generator_.discard(steps * options_.accumulate * options_.batch);
}

template <typename T>
double Trainer<T>::run(std::size_t steps, const std::function<void(double)>& on_step) {
  constexpr std::size_t kValidationBatches = 8;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (std::size_t s = 0; s < steps; ++s) {
    const double loss = step();
    if (on_step) on_step(loss);
    if (!std::isfinite(loss) || !std::isfinite(gradient_norm_)) return kInfinity;
  }
  const double loss = validate(kValidationBatches);
  if (!std::isfinite(loss)) return kInfinity;
  return loss;
}

template <typename T>
double Trainer<T>::probe(Probe<Value>& probe) {
  TorchGenerator generator(options_.seed);
  text_.sample(generator, inputs_, targets_);
  zero_gradients(parameters_);
  return forward_backward({.mode = Mode::kEvaluation, .probe = &probe});
}

/// Returns this process's part of an array with entries for every window of a batch.
template <typename T>
template <typename V>
std::span<V> Trainer<T>::share(std::span<V> batch) const {
  const std::size_t size = batch.size() / options_.world->size();
  return batch.subspan(options_.world->rank() * size, size);
}

/// Runs on this process's share of the batch. Returns the share's loss; gradients are shares of the
/// batch's.
template <typename T>
double Trainer<T>::forward_backward(typename Decoder<T>::Step step) {
  const Communicator& world = *options_.world;
  step.batch = windows_;
  step.first_row = world.rank() * windows_ * decoder_.options().context;
  const MatrixView<Value> logits = decoder_.forward(share(std::span(inputs_)), step);
  const double loss = cross_entropy<Value>(logits, share(std::span(targets_)), logits);
  if (world.size() > 1) {
    for (std::size_t r = 0; r < logits.rows; ++r) {
      for (Value& v : logits.row(r)) v /= static_cast<Value>(world.size());
    }
  }
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
      return share(all.subspan(b * size, size));
    };
    const MatrixView<Value> logits =
        decoder_.forward(part(inputs), {.batch = windows_, .mode = Mode::kEvaluation});
    loss += cross_entropy<Value>(logits, part(targets), {});
  }
  return options_.world->sum(loss) / static_cast<double>(batches * options_.world->size());
}

template class Trainer<float>;
template class Trainer<double>;
template class Trainer<BFloat16>;

}  // namespace addnorm::train
