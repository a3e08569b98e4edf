#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "run/run_config.h"

namespace addnorm::run {

/// The memory that training needs in each process, in bytes.
struct MemoryEstimate {
  std::size_t parameters = 0;   ///< number of parameters
  std::size_t weights = 0;      ///< values and gradients, and bfloat16 copies
  std::size_t optimizer = 0;    ///< AdamW's moments
  std::size_t activations = 0;  ///< data for backward, and scratch
  std::size_t exchange = 0;     ///< gradients in exchange between processes

  std::size_t total() const { return weights + optimizer + activations + exchange; }
};
MemoryEstimate estimate_memory(const RunConfig& config, std::size_t processes = 1);

/// Returns the bytes that this process can still allocate: the system's MemAvailable, or the rest
/// of its control group if that is less. Returns nothing if the system does not report it.
std::optional<std::size_t> available_memory();

/// Throws an Error if a run needs more than available_memory().
void check_memory(std::size_t needed);

/// Returns "48 MB", "1.33 GB".
std::string memory_text(std::size_t bytes);

}  // namespace addnorm::run
