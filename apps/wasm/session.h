#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "addnorm/nn/initialize.h"
#include "train/trainer.h"

namespace addnorm {

/// A row of one's own, put together from the table's rows, from
/// [before, inside, after, skip, gain, before's scale, initial gain, final norm]: slots are 0 or 1;
/// a factor is the place of the placement that has it.
BlockPlacement block_placement(const double* arrangement);

struct SessionOptions {
  std::size_t layers = 12;
  std::size_t width = 64;
  std::size_t heads = 4;
  std::size_t context = 64;
  std::size_t batch = 8;
  double learning_rate = 2e-3;
  std::size_t warm_up = 0;
  std::uint64_t seed = 0;
  Initialization initialization = Initialization::kTorch;
  NormKind norm = NormKind::kLayer;  ///< kLayer or kRms
};
/// From an array in the order of the members.
SessionOptions session_options(const double* values);

/// A small decoder over bytes, as `addnorm study` trains them, that is measured or trained step by
/// step.
class Session {
 public:
  Session(const BlockPlacement& placement, const SessionOptions& options, std::string text);
  Session(const Session&) = delete;  // the trainer refers to the text and the decoder
  Session& operator=(const Session&) = delete;

  std::size_t parameters() { return count_parameters(decoder_.parameters()); }
  /// Writes the RMS of the stream, the RMS of its gradient and its token cosine, layers + 1 values
  /// each (stream_entry()), of one batch; returns its loss.
  double measure(double* by_layer);
  double step() { return trainer_.step(); }
  double validate(std::size_t batches) { return trainer_.validate(batches); }
  double unigram_loss() const { return text_.unigram_loss(); }

 private:
  SessionOptions options_;
  ByteText text_;
  Decoder<float> decoder_;
  Trainer<float> trainer_;
};

}  // namespace addnorm
