#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "addnorm/nn/decoder.h"
#include "wasm/options.h"

namespace addnorm {

/// A range of sublayers, counted over all layers from 0, whose branches are multiplied by 0.
struct Skipped {
  std::size_t first = 0;
  std::size_t count = 0;
};

/// A decoder over bytes with the parameters of a file, which reads prompts.
class TrainedDecoder {
 public:
  explicit TrainedDecoder(const TrainedOptions& options);

  /// Sets the values of the parameter with this name; all are needed before a prompt is read.
  void set(std::string_view name, std::span<const float> values);

  void measure(std::string_view prompt, const PromptMeasurement& to);

  /// Returns the loss on the prompt's own bytes, each predicted from those before it, in nats per
  /// byte.
  double predict(std::string_view prompt, const Skipped& skipped, const PromptPrediction& to);

 private:
  std::vector<std::int32_t> tokens_of(std::string_view prompt);
  Decoder<float> without(const Skipped& skipped);

  Decoder<float> decoder_;
  std::vector<std::string> missing_;  // parameters without values
};

}  // namespace addnorm
