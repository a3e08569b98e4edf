#pragma once

#include <cstddef>
#include <cstdint>

#include "addnorm.h"
#include "addnorm/nn/initialize.h"

namespace addnorm {

/// The structs that callers of the module fill, besides those of addnorm.h; layouts.cc lists the
/// fields.

struct ModuleBlockOptions {
  std::size_t d_model;
  std::size_t heads;
  std::size_t d_ff;
  FeedForwardKind feed_forward;
  const addnorm_norm_options* norm;
  std::size_t layer;  ///< of `layers`, from 1
  std::size_t layers;
  Initialization initialization;
  std::uint64_t seed;
};

/// The reader's own row, combined from rows of the table of placements: a factor is the index of
/// the row that has it.
struct Arrangement {
  Slot before;
  Slot inside;
  Slot after;
  std::size_t skip;
  std::size_t gain;
  std::size_t before_scale;
  std::size_t initial_gain;
  Slot final_norm;
};

struct SessionOptions {
  std::size_t layers;
  std::size_t width;
  std::size_t heads;
  std::size_t context;
  std::size_t batch;
  double learning_rate;
  std::size_t warm_up;
  std::uint64_t seed;
  Initialization initialization;
  NormKind norm;  ///< kLayer or kRms
};

/// The memory for a measurement, layers + 1 values each, except the turns.
struct Measurement {
  double* stream;
  double* gradient;
  double* token_cosine;
  double* turn;  ///< layers values
};

/// The memory for the tokens of a sentence, layers + 1 times one value for each token, and for each
/// pair.
struct TokenMeasurement {
  double* stream;    ///< RMS
  double* gradient;  ///< RMS of the loss's gradient
  double* cosine;
};

/// The sizes of a trained decoder: pre-norm, GELU, a tied head.
struct TrainedOptions {
  std::size_t layers;
  std::size_t width;
  std::size_t heads;
  std::size_t d_ff;
  std::size_t context;
  double epsilon;
};

/// The memory for the stream of a prompt, sublayer by sublayer.
struct PromptMeasurement {
  double* stream;    ///< RMS of each sublayer's input, and of the last one's output
  double* branch;    ///< RMS of each sublayer's update
  double* features;  ///< of the stream at the same places: RMS of each feature over the tokens
};

/// The memory for a prediction.
struct PromptPrediction {
  double* next;        ///< the probabilities of all 256 bytes after the prompt
  char* continuation;  ///< bytes after it, each the most likely one
  std::size_t length;  ///< number of these bytes, as far as the context has room
};

}  // namespace addnorm
