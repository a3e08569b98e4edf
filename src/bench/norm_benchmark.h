#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/job.h"
#include "bench/python_rival.h"

namespace addnorm::bench {

/// The types of storage that can be measured, such as "f32".
std::vector<std::string> all_dtypes();

struct Options {
  int threads = 1;
  std::size_t repeats = 9;  ///< samples of each candidate
};

/// What a rival in Python took; none where it has no such kernel or failed.
struct RivalTime {
  PythonRivalKind kind;
  std::optional<double> ms = {};
};

/// Medians in milliseconds.
struct Result {
  Job job;
  Options options;
  double ms = 0;
  double copy_ms = 0;  ///< of as many bytes, half of them read and half written
  std::optional<double> onednn_ms;
  std::vector<RivalTime> rivals;  ///< in the order in which they were given
};

/// Does the job in turn with a copy, with oneDNN and with rivals in Python, until each has its
/// samples. Throws Error where our result is not oneDNN's.
Result run_benchmark(const Job& job, const Options& options,
                     std::span<const std::unique_ptr<PythonRival>> rivals);

/// Of at least one value; the mean of the middle two where their number is even.
double median(std::vector<double> values);

}  // namespace addnorm::bench
