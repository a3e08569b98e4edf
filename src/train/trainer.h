#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "addnorm/nn/decoder.h"
#include "addnorm/train/adamw.h"
#include "train/byte_text.h"
#include "train/communicator.h"
#include "train/gradient_sum.h"

namespace addnorm::train {

/// The course of a learning rate after its warm-up.
enum class Decay { kNone, kLinear, kCosine };
constexpr std::array<std::string_view, 3> names_of(Decay) {
  return {"none", "linear", "cosine"};
}

/// The learning rate grows linearly over `warm_up` steps (learning-rate warm-up). Then it stays
/// constant, or falls until step `steps`, linearly or as half a cosine (Loshchilov and Hutter 2017,
/// eq. 5).
struct LearningRate {
  double peak = 1e-3;
  std::size_t warm_up = 0;
  Decay decay = Decay::kNone;
  std::size_t steps = 0;
  double last_share = 0.1;  ///< final share of the peak

  /// Returns the rate at step 0, 1, …
  double at(std::size_t step) const;
};

struct TrainerOptions {
  std::size_t batch = 8;       ///< windows, of all processes together
  std::size_t accumulate = 1;  ///< batches whose mean gradient is used in one step
  LearningRate learning_rate;
  AdamWOptions adamw;
  double clip = 0;  ///< largest norm of a gradient; larger ones are scaled down; 0: no clipping
  std::uint64_t seed = 0;  ///< of the windows and of dropout
  /// Each process computes its share of every batch; losses and gradients are those of the whole
  /// batch. All processes call the same methods of their trainers, except probe().
  Communicator* world = &one_process();
};

/// Trains a decoder on bytes, one step a call. After the first step only the library for matrix
/// products allocates.
template <typename T>
class Trainer {
 public:
  using Value = Arithmetic<T>;

  /// Profiles the decoder on one batch of the text if a placement requires it (initialize_admin).
  Trainer(Decoder<T>& decoder, const ByteText& text, const TrainerOptions& options);

  /// Draws batches, runs forward and backward, and updates. Returns the loss before the update, in
  /// nats per byte. If the loss or the gradient is not finite, the parameters stay unchanged.
  double step();

  /// Returns the rate of the last step.
  double learning_rate() const { return options_.learning_rate.at(steps_ - 1); }
  /// Returns the norm of all parameters' gradients in the last step, before clipping.
  double gradient_norm() const { return gradient_norm_; }

  /// Returns the number of steps so far.
  std::size_t steps() const { return steps_; }

  /// Repeats a last step that left the parameters unchanged, observed by `probe`.
  void repeat_step(Probe<Value>& probe);

  /// Returns the values that a step changes and that do not follow from the number of steps:
  /// parameters and moments.
  std::vector<NamedMatrix<Value>> state();
  /// Resumes after `steps` steps, with state()'s values of that time. The bits are the same as
  /// without an interruption.
  void resume(std::size_t steps);

  /// Returns the loss on `batches` batches of the validation windows, in evaluation mode.
  double validate(std::size_t batches);

  /// Makes at most `steps` steps, up to the first whose loss or gradient is not finite, and reports
  /// each loss to on_step. Returns the loss on 8 batches of the validation windows, infinite if it
  /// ended early.
  double run(std::size_t steps, const std::function<void(double loss)>& on_step = {});

  /// Runs forward and backward on this process's share of one batch of the training text, observed
  /// by `probe`; no update. Returns the share's loss.
  double probe(Probe<Value>& probe);

 private:
  double accumulate(Probe<Value>* probe = nullptr);
  void go_to(std::size_t steps);
  double forward_backward(typename Decoder<T>::Step step);
  template <typename V>
  std::span<V> share(std::span<V> batch) const;

  Decoder<T>& decoder_;
  const ByteText& text_;
  TrainerOptions options_;
  ParameterList<Value> parameters_;
  AdamW<Value> adamw_;
  TorchGenerator generator_;
  std::size_t steps_ = 0;
  double gradient_norm_ = 0;
  std::vector<std::int32_t> inputs_, targets_;  // the whole batch
  std::size_t windows_;                         // number of its windows for this process
  std::optional<GradientSum<Value>> gradient_sum_;
};

}  // namespace addnorm::train
