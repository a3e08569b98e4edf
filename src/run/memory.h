#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "run/run_config.h"

namespace addnorm::run {

/// What training takes in each process, in bytes.
struct MemoryEstimate {
  std::size_t parameters = 0;   ///< how many
  std::size_t weights = 0;      ///< values and gradients, and bfloat16 copies
  std::size_t optimizer = 0;    ///< AdamW's moments
  std::size_t activations = 0;  ///< what backward needs, and scratch
  std::size_t exchange = 0;     ///< gradients on their way between processes

  std::size_t total() const { return weights + optimizer + activations + exchange; }
};
MemoryEstimate estimate_memory(const RunConfig& config, std::size_t processes = 1);

/// What this process can still have: the system's MemAvailable, or what its control group leaves
/// where that is less. Nothing where the system does not say.
std::optional<std::size_t> available_memory();

/// Throws Error where a run needs more than that.
void check_memory(std::size_t needed);

/// "48 MB", "1.33 GB"
std::string memory_text(std::size_t bytes);

}  // namespace addnorm::run
