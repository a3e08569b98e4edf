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

/// Returns the types of storage that can be measured, such as "f32".
std::vector<std::string> all_dtypes();

struct Options {
  int threads = 1;
  std::size_t repeats = 9;  ///< samples of each candidate
  double sample_ms = 5;     ///< shorter work is repeated until a sample takes this long
};

/// The time of a rival in Python; absent if it has no such kernel or failed.
struct RivalTime {
  PythonRivalKind kind;
  std::optional<double> ms = {};
};

/// Medians in milliseconds.
struct Result {
  Job job;
  Options options;
  double ms = 0;
  double copy_ms = 0;  ///< of a copy with the same number of bytes, half read and half written
  std::optional<double> onednn_ms;
  std::vector<RivalTime> rivals;  ///< in the order of the arguments
};

/// Measures the job alternately with a copy, oneDNN and rivals in Python, until each has its
/// samples. Throws an Error if our result differs from oneDNN's.
Result run_benchmark(const Job& job, const Options& options,
                     std::span<const std::unique_ptr<PythonRival>> rivals);

/// Returns the median of at least one value; for an even number, the mean of the middle two.
double median(std::vector<double> values);

}  // namespace addnorm::bench
