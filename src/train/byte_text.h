#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "addnorm/torch_generator.h"

namespace addnorm::train {

/// A text as bytes, with its last tenth for validation. A sample is a window of context + 1 bytes:
/// the inputs, and the targets, shifted by one.
class ByteText {
 public:
  /// Throws an Error if the text is too short for a window in each part.
  ByteText(std::string text, std::size_t context);

  /// Fills inputs and targets, batch × context each, with random windows of the training part.
  void sample(TorchGenerator& generator, std::span<std::int32_t> inputs,
              std::span<std::int32_t> targets) const;
  /// Fills them with windows spread evenly over the validation part.
  void validation(std::span<std::int32_t> inputs, std::span<std::int32_t> targets) const;

  /// Returns the cross entropy of the validation part under the training part's byte frequencies,
  /// in nats. It is the loss of a model that knows the frequencies of bytes but not their order.
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
