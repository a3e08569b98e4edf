#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "addnorm/train/adamw.h"
#include "io/safetensors.h"
#include "run/run_config.h"

namespace addnorm::run {

/// Returns a hash that tells byte sequences apart; not for security. It runs words of 8 bytes
/// through splitmix64's finalizer (Steele, Lea and Flood 2014).
std::uint64_t fingerprint(std::string_view bytes, std::uint64_t seed = 0);

/// The state of a run, besides the matrices that training changes.
struct RunState {
  RunConfig config;        ///< without the names of the text's files
  std::size_t steps = 0;   ///< steps made so far
  std::uint64_t text = 0;  ///< fingerprint() of the training text
};

/// Writes a checkpoint, completely or not at all: a safetensors file with the matrices under their
/// names, parameters first, and the state as metadata.
void write_checkpoint(const std::string& file, const RunState& state,
                      std::span<const NamedMatrix<float>> matrices);

/// The contents of a checkpoint. Throws an Error if the file is no checkpoint, truncated or
/// damaged.
class Checkpoint {
 public:
  explicit Checkpoint(const std::string& file);

  const RunState& state() const { return state_; }
  /// Fills all matrices. Throws an Error, and changes nothing, if one is missing or has another
  /// shape.
  void restore(std::span<const NamedMatrix<float>> matrices) const;

 private:
  io::Safetensors stored_;
  RunState state_;
};

/// Returns the decoder of a checkpoint, with its parameters.
Decoder<float> load_decoder(const Checkpoint& checkpoint);

}  // namespace addnorm::run
