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

/// Where a measurement goes, layers + 1 values each.
struct Measurement {
  double* stream;
  double* gradient;
  double* token_cosine;
};

/// Where the tokens of a sentence go, layers + 1 times one value for each token, and for every two.
struct TokenMeasurement {
  double* stream;    ///< RMS
  double* gradient;  ///< RMS of the loss's gradient
  double* cosine;
};

}  // namespace addnorm
