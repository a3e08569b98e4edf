#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "addnorm/torch_generator.h"

namespace addnorm::train {

/// Text as bytes, its last tenth kept for validation. A sample is a window of context + 1 bytes:
/// inputs and, one further, targets.
class ByteText {
 public:
  /// Error if the text is too short for a window in each part.
  ByteText(std::string text, std::size_t context);

  /// Fills inputs and targets, batch × context each, with windows drawn from the training part.
  void sample(TorchGenerator& generator, std::span<std::int32_t> inputs,
              std::span<std::int32_t> targets) const;
  /// The same with windows spread evenly over the validation part.
  void validation(std::span<std::int32_t> inputs, std::span<std::int32_t> targets) const;

  /// The cross entropy of the validation part under the training part's byte frequencies, in nats:
  /// the loss of a model that has learned which bytes are frequent, and nothing of their order.
  double unigram_loss() const;

  std::size_t size() const { return text_.size(); }
  std::string_view bytes() const { return text_; }

 private:
  void copy_window(std::size_t begin, std::span<std::int32_t> inputs,
                   std::span<std::int32_t> targets) const;

  std::string text_;
  std::size_t context_;
  std::size_t training_size_;
};

}  // namespace addnorm::train
