#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "addnorm/nn/decoder.h"
#include "addnorm/torch_generator.h"

namespace addnorm::run {

/// How the next byte is chosen from the model's distribution p = softmax(logits/temperature).
struct Sampling {
  double temperature = 1;  ///< 0: always the likeliest
  std::size_t top_k = 0;   ///< only the k likeliest; 0: all
  double top_p = 1;        ///< only the likeliest that together reach this (Holtzman et al. 2020)
};
void check(const Sampling& sampling);

/// Draws a token. A generator in the same state draws the same one.
std::size_t sample(std::span<const float> logits, const Sampling& sampling,
                   TorchGenerator& generator);

/// Continues a text byte by byte. Keys and values of the past are kept; when the context is full,
/// its second half is read again and becomes the beginning.
class TextGenerator {
 public:
  /// The decoder must live as long. Throws Error where the prompt is empty.
  TextGenerator(Decoder<float>& decoder, std::string_view prompt, const Sampling& sampling,
                std::uint64_t seed);

  char next();

 private:
  void feed();

  Decoder<float>& decoder_;
  Sampling sampling_;
  TorchGenerator generator_;
  std::vector<std::int32_t> tokens_;  // of the context so far
  std::size_t past_ = 0;              // how many of them the decoder has read
  std::span<const float> logits_;
};

}  // namespace addnorm::run
