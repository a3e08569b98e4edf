#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "race/python_rival.h"
#include "race/race_job.h"

namespace addnorm::race {

/// The types of storage that can be raced, such as "f32".
std::vector<std::string> race_dtypes();

struct RaceOptions {
  int threads = 1;
  std::size_t repeats = 9;  ///< samples of each contestant
};

/// What a rival in Python took; none where it has no such kernel or failed.
struct RivalTime {
  PythonRivalKind kind;
  std::optional<double> ms = {};
};

/// Medians in milliseconds.
struct RaceResult {
  RaceJob job;
  RaceOptions options;
  double ms = 0;
  double copy_ms = 0;  ///< of as many bytes, half of them read and half written
  std::optional<double> onednn_ms;
  std::vector<RivalTime> rivals;  ///< in the order in which they were given
};

/// Does the job in turn with a copy, with oneDNN and with rivals in Python, until each has its
/// samples. Throws Error where our result is not oneDNN's.
RaceResult race(const RaceJob& job, const RaceOptions& options,
                std::span<const std::unique_ptr<PythonRival>> rivals);

/// Of at least one value; the mean of the middle two where their number is even.
double median(std::vector<double> values);

}  // namespace addnorm::race
