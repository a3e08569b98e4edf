#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "doctor/subject.h"
#include "model/streamed_model.h"

namespace addnorm {

/// What a model is run on: `batch` sequences of the same length, one after the other. Empty: tokens
/// drawn at random from its vocabulary.
struct Tokens {
  std::vector<std::int32_t> ids = {};
  std::size_t batch = 0;
  std::uint64_t seed = 0;  ///< of random ones
};

/// A model with what is known of it beside its numbers.
struct OpenedModel {
  Subject subject;  ///< its profile has no entries yet
  StreamedModel model;
};

/// Opens a run of `addnorm train`, a folder with config.json and safetensors files, or one
/// .safetensors file beside its config.json. A final norm that the recipe has and the files lack is
/// left out, for the doctor to find; any other parameter that is missing is an Error.
OpenedModel open_model(const std::string& path);

/// Whether the path is a profile rather than a model.
bool is_profile(const std::string& path);

/// Runs the model forward and backward, once, and measures every site and every parameter. The loss
/// is the mean cross-entropy of the next token, of the same token where tokens see those behind
/// them, and of a model without logits the mean of its output's products with random numbers. Adds
/// the entries to `subject`.
void examine(StreamedModel& model, const Tokens& tokens, Subject& subject);

/// The profile of a .jsonl file: its last, where training wrote several, with the entries of all
/// that are of the same model.
Subject read_profile(const std::string& file);

}  // namespace addnorm
