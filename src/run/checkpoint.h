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

/// Tells two sequences of bytes apart; no secret. Words of 8 bytes through splitmix64's finalizer
/// (Steele, Lea and Flood 2014).
std::uint64_t fingerprint(std::string_view bytes, std::uint64_t seed = 0);

/// Where a run stands, besides the matrices that training changes.
struct RunState {
  RunConfig config;        ///< without the names of the text's files
  std::size_t steps = 0;   ///< that have been made
  std::uint64_t text = 0;  ///< fingerprint() of the text that it is trained on
};

/// Writes a checkpoint, whole or not at all: a safetensors file with the matrices under their
/// names, parameters first, and the state as metadata.
void write_checkpoint(const std::string& file, const RunState& state,
                      std::span<const NamedMatrix<float>> matrices);

/// What a checkpoint holds. Throws Error where the file is no checkpoint, is cut, or has other
/// bytes than were written.
class Checkpoint {
 public:
  explicit Checkpoint(const std::string& file);

  const RunState& state() const { return state_; }
  /// Fills all matrices. Throws Error, and changes nothing, where one is missing or has another
  /// shape.
  void restore(std::span<const NamedMatrix<float>> matrices) const;

 private:
  io::Safetensors stored_;
  RunState state_;
};

/// The decoder of a checkpoint, with its parameters.
Decoder<float> load_decoder(const Checkpoint& checkpoint);

}  // namespace addnorm::run
