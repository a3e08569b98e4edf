#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "doctor/subject.h"
#include "model/streamed_model.h"
#include "train/byte_text.h"

namespace addnorm::doctor {

/// What a model is run on: `batch` sequences of the same length, one after the other. Empty: tokens
/// drawn at random from its vocabulary.
struct Tokens {
  std::vector<std::int32_t> ids = {};
  std::vector<std::int32_t> targets =
      {};  ///< one for each; empty: the next token, as far as there
           ///< is one, or where tokens see those behind them the same
  std::size_t batch = 0;
  std::uint64_t seed = 0;   ///< of random ones
  std::string origin = {};  ///< in words
};

/// Windows of the text's validation part.
Tokens text_tokens(const train::ByteText& text, std::size_t context);

/// Runs the model forward and backward, once, and measures every site and every parameter. The loss
/// is the mean cross-entropy, and of a model without logits the mean of its output's products with
/// random numbers. Where the subject has tensors that cannot be read, measures γ and β alone. Adds
/// the entries to `subject`, and what they were measured on.
void examine(model::StreamedModel& model, const Tokens& tokens, Subject& subject);

/// The loss alone, forward alone. Error unless the model has logits.
double loss_on(model::StreamedModel& model, const Tokens& tokens);

}  // namespace addnorm::doctor
