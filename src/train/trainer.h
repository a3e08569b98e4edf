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

/// How a learning rate falls after its warm-up.
enum class Decay { kNone, kLinear, kCosine };
constexpr std::array<std::string_view, 3> names_of(Decay) {
  return {"none", "linear", "cosine"};
}

/// The learning rate grows linearly over `warm_up` steps. Then it stays, or falls until step
/// `steps`, in a straight line or half a cosine (Loshchilov and Hutter 2017, eq. 5).
struct LearningRate {
  double peak = 1e-3;
  std::size_t warm_up = 0;
  Decay decay = Decay::kNone;
  std::size_t steps = 0;
  double last_share = 0.1;  ///< what is left of the peak then

  /// At step 0, 1, …
  double at(std::size_t step) const;
};

struct TrainerOptions {
  std::size_t batch = 8;       ///< windows, of all processes together
  std::size_t accumulate = 1;  ///< batches whose mean gradient makes a step
  LearningRate learning_rate;
  AdamWOptions adamw;
  double clip = 0;         ///< a gradient of a larger norm is scaled down to this; 0: none is
  std::uint64_t seed = 0;  ///< of the windows and of dropout
  /// Each process takes its share of every batch; losses and gradients are those of the whole. All
  /// call the same methods of their trainers, but for probe().
  Communicator* world = &one_process();
};

/// Trains a decoder on bytes, one step at a call. After the first step nothing is
/// allocated but by the library behind the matrix products.
template <typename T>
class Trainer {
 public:
  using Value = Arithmetic<T>;

  /// Profiles the decoder on one batch of the text where a placement asks for it
  /// (initialize_admin).
  Trainer(Decoder<T>& decoder, const ByteText& text, const TrainerOptions& options);

  /// Draws batches, goes forward and backward, updates. Returns the loss before the update, in nats
  /// a byte. Where that or the gradient is not finite the parameters stay as they are.
  double step();

  /// With which the last step was made.
  double learning_rate() const { return options_.learning_rate.at(steps_ - 1); }
  /// Of all parameters' gradients together in the last step, before it was clipped.
  double gradient_norm() const { return gradient_norm_; }

  /// How many steps there have been.
  std::size_t steps() const { return steps_; }

  /// The last step again where it left the parameters as they were, observed by `probe`.
  void repeat_step(Probe<Value>& probe);

  /// What a step changes, besides what follows from the number of steps: parameters and moments.
  std::vector<NamedMatrix<Value>> state();
  /// Goes on as if there had been `steps` steps, with the values that state() had then: the same
  /// bits as without a break.
  void resume(std::size_t steps);

  /// The loss on the validation windows, `batches` batches of them, in evaluation mode.
  double validate(std::size_t batches);

  /// At most `steps` steps, up to the first whose loss or gradient is not finite, each loss
  /// reported to on_step. Returns the loss on 8 batches of the validation windows, infinite where
  /// it ended early.
  double run(std::size_t steps, const std::function<void(double loss)>& on_step = {});

  /// Forward and backward on this process's share of one batch of the training text, observed by
  /// `probe`; no update. Returns the share's loss.
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
  std::size_t windows_;                         // of it, this process's
  std::optional<GradientSum<Value>> gradient_sum_;
};

}  // namespace addnorm::train
