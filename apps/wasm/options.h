#pragma once

#include <cstddef>
#include <cstdint>

#include "addnorm.h"
#include "addnorm/nn/initialize.h"

namespace addnorm {

/// What callers of the module fill beside the structs of addnorm.h; layouts.cc states the fields.

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

/// A row of one's own, put together from rows of the table of placements: a factor is the place of
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

/// Where a measurement goes, layers + 1 values each, but for the turns.
struct Measurement {
  double* stream;
  double* gradient;
  double* token_cosine;
  double* turn;  ///< layers values
};

/// Where the tokens of a sentence go, layers + 1 times one value for each token, and for every two.
struct TokenMeasurement {
  double* stream;    ///< RMS
  double* gradient;  ///< RMS of the loss's gradient
  double* cosine;
};

/// Sizes of a decoder that has been trained: pre-norm, GELU, a tied head.
struct TrainedOptions {
  std::size_t layers;
  std::size_t width;
  std::size_t heads;
  std::size_t d_ff;
  std::size_t context;
  double epsilon;
};

/// Where the stream of a prompt goes, sublayer by sublayer.
struct PromptMeasurement {
  double* stream;    ///< RMS of what each sublayer reads, and of what the last one leaves
  double* branch;    ///< RMS of what each sublayer adds
  double* features;  ///< of the stream, at the same places: the RMS of each feature over the tokens
};

/// Where a prediction goes.
struct PromptPrediction {
  double* next;        ///< the probabilities of all 256 bytes that may follow the prompt
  char* continuation;  ///< bytes after it, each the likeliest after those before
  std::size_t length;  ///< how many, as far as the context has room
};

}  // namespace addnorm
