#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "doctor/subject.h"
#include "model/streamed_model.h"
#include "train/byte_text.h"

namespace addnorm::doctor {

/// The tokens that a model is run on: `batch` sequences of the same length, one after the other.
/// Empty: random tokens from its vocabulary.
struct Tokens {
  std::vector<std::int32_t> ids = {};
  /// One for each token. Empty: the next token, if there is one; the token itself if tokens see
  /// later ones.
  std::vector<std::int32_t> targets = {};
  std::size_t batch = 0;
  std::uint64_t seed = 0;   ///< for random tokens
  std::string origin = {};  ///< a description
};

/// Returns windows of the text's validation part.
Tokens text_tokens(const train::ByteText& text, std::size_t context);

/// Runs the model forward and backward, once, and measures every site and every parameter. The loss
/// is the mean cross-entropy; for a model without logits it is the mean of its output's products
/// with random numbers. If the subject has unreadable tensors, only γ and β are measured. Adds the
/// entries to `subject`, and the description of the tokens.
void examine(model::StreamedModel& model, const Tokens& tokens, Subject& subject);

/// Returns only the loss, from a forward without backward. Throws an Error unless the model has
/// logits.
double loss_on(model::StreamedModel& model, const Tokens& tokens);

}  // namespace addnorm::doctor
