#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "race/race_job.h"
#include "race/torch_norm.h"

namespace addnorm {

/// The types of storage that can be raced, such as "f32".
std::vector<std::string> race_dtypes();

struct RaceOptions {
  int threads = 1;
  std::size_t repeats = 9;  ///< samples of each contestant
};

/// Medians in milliseconds.
struct RaceResult {
  RaceJob job;
  RaceOptions options;
  double ms = 0;
  double copy_ms = 0;  ///< of as many bytes, half of them read and half written
  std::optional<double> onednn_ms;
  std::optional<double> pytorch_ms;        ///< with memory kept
  std::optional<double> pytorch_as_is_ms;  ///< TorchMemory::kAsIs
};

/// PyTorch with either kind of memory; null: not raced.
struct TorchRivals {
  TorchNorm* kept = nullptr;
  TorchNorm* as_is = nullptr;
};

/// Does the job in turn with a copy, with oneDNN and with PyTorch, until each has its samples.
/// Throws Error where our result is not oneDNN's.
RaceResult race(const RaceJob& job, const RaceOptions& options, const TorchRivals& torch);

/// Of at least one value; the mean of the middle two where their number is even.
double median(std::vector<double> values);

}  // namespace addnorm
