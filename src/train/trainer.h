#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "nn/decoder.h"
#include "train/adamw.h"
#include "train/byte_text.h"

namespace addnorm {

/// The learning rate grows linearly over `warm_up` steps and then stays.
struct LearningRate {
  double peak = 1e-3;
  std::size_t warm_up = 0;

  /// At step 0, 1, …
  double at(std::size_t step) const {
    return step < warm_up ? peak * static_cast<double>(step + 1) / static_cast<double>(warm_up)
                          : peak;
  }
};

struct TrainerOptions {
  std::size_t batch = 8;
  LearningRate learning_rate;
  AdamWOptions adamw;
  std::uint64_t seed = 0;  ///< of the windows and of dropout
};

/// Trains a decoder on bytes, one step at a call. After the first step nothing is
/// allocated but by the library behind the matrix products.
template <typename T>
class Trainer {
 public:
  /// Profiles the decoder on one batch of the text where a placement asks for it
  /// (initialize_admin).
  Trainer(Decoder<T>& decoder, const ByteText& text, const TrainerOptions& options);

  /// Draws a batch, goes forward and backward, updates. Returns the loss before the update, in nats
  /// a byte. Where that is not finite the parameters stay as they are.
  double step();

  /// The loss on the validation windows, `batches` batches of them, in evaluation mode.
  double validate(std::size_t batches);

  /// At most `steps` steps, up to the first whose loss is not finite, each told to on_step. Returns
  /// the loss on 8 batches of the validation windows, infinite where a loss was not finite.
  double run(std::size_t steps, const std::function<void(double loss)>& on_step = {});

  /// Forward and backward on one batch of the training text, told to `probe`; no update. Returns
  /// the loss.
  double probe(Probe<T>& probe);

 private:
  double forward_backward(const typename Decoder<T>::Step& step);

  Decoder<T>& decoder_;
  const ByteText& text_;
  TrainerOptions options_;
  ParameterList<T> parameters_;
  AdamW<T> adamw_;
  TorchGenerator generator_;
  std::size_t steps_ = 0;
  std::vector<std::int32_t> inputs_, targets_;
};

}  // namespace addnorm
