#pragma once

#include <cstddef>
#include <string>

#include "train/trainer.h"
#include "wasm/options.h"

namespace addnorm {

/// Returns a decoder over bytes with its initial weights.
Decoder<float> drawn(const Arrangement& arrangement, const SessionOptions& options);

/// A small decoder over bytes, as in `addnorm study`, that is measured or trained step by step.
class Session {
 public:
  Session(const Arrangement& arrangement, const SessionOptions& options, std::string text);
  Session(const Session&) = delete;  // the trainer refers to the text and the decoder
  Session& operator=(const Session&) = delete;

  std::size_t parameters() { return count_parameters(decoder_.parameters()); }
  /// Measures the stream (stream_entry()) on one batch: its RMS, the RMS of its gradient, its token
  /// similarity, and how far each layer turns it. Returns the batch's loss.
  double measure(const Measurement& to);
  double step() { return trainer_.step(); }
  double validate(std::size_t batches) { return trainer_.validate(batches); }
  double unigram_loss() const { return text_.unigram_loss(); }

 private:
  SessionOptions options_;
  train::ByteText text_;
  Decoder<float> decoder_;
  train::Trainer<float> trainer_;
};

}  // namespace addnorm
