#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace addnorm::run {

/// The metrics of one step. NaN: not finite, or unknown.
struct StepMetrics {
  std::size_t step = 0;      ///< from 1
  double loss = 0;           ///< before the update, in nats per byte
  double gradient_norm = 0;  ///< before clipping
  double learning_rate = 0;
  std::uint64_t tokens = 0;  ///< since the beginning of the run
  double seconds = 0;        ///< of training, since the beginning of the run
};

struct Validation {
  std::size_t step = 0;
  double loss = 0;  ///< in nats per byte, after that step
};

/// The contents of metrics.jsonl.
struct Metrics {
  std::vector<StepMetrics> steps;
  std::vector<Validation> validations;
  std::string stopped;  ///< the reason why the run could not continue, or empty
};

/// JSON lines, one for each event:
///   {"step":12,"loss":2.31,"gradient_norm":0.8,"learning_rate":0.001,"tokens":24576,"seconds":3.4}
///   {"step":12,"validation_loss":2.2}
///   {"step":13,"stopped":"…"}
/// A number that is not finite is null. Each line is written to the system at once, so a killed
/// process loses none.
class MetricsLog {
 public:
  /// Continues a log after step `steps`; lines of later steps are dropped.
  MetricsLog(const std::string& file, std::size_t steps);

  void add(const StepMetrics& metrics);
  void add(const Validation& validation);
  void stopped(std::size_t step, const std::string& why);

 private:
  std::string file_;
};

/// Reads a log; an incomplete last line is ignored. A missing file is an empty log.
Metrics read_metrics(const std::string& file);

/// Drops the lines of later steps from a file of JSON lines. Lines without a step stay, and a
/// missing file stays missing.
void keep_steps(const std::string& file, std::size_t steps);

}  // namespace addnorm::run
