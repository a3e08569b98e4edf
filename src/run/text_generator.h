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

/// The choice of the next byte from the model's distribution p = softmax(logits/temperature).
struct Sampling {
  double temperature = 1;  ///< 0: always the most likely byte
  std::size_t top_k = 0;   ///< only the k most likely bytes; 0: all
  /// only the most likely bytes with this total probability (Holtzman et al. 2020)
  double top_p = 1;
};
void check(const Sampling& sampling);

/// Draws a token. Equal states of the generator draw the same token.
std::size_t sample(std::span<const float> logits, const Sampling& sampling,
                   TorchGenerator& generator);

/// Continues a text byte by byte. Keys and values of past bytes are kept. When the context is full,
/// its second half is read again and becomes the beginning.
class TextGenerator {
 public:
  /// The decoder must outlive this. Throws an Error if the prompt is empty.
  TextGenerator(Decoder<float>& decoder, std::string_view prompt, const Sampling& sampling,
                std::uint64_t seed);

  char next();

 private:
  void feed();

  Decoder<float>& decoder_;
  Sampling sampling_;
  TorchGenerator generator_;
  std::vector<std::int32_t> tokens_;  // in the context so far
  std::size_t past_ = 0;              // number of them that the decoder has read
  std::span<const float> logits_;
};

}  // namespace addnorm::run
