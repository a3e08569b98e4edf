#pragma once

#include <string>

namespace addnorm::run {

/// The files of a training run.
struct RunFiles {
  explicit RunFiles(const std::string& folder);

  std::string folder;
  std::string config;      ///< config.json: RunConfig
  std::string metrics;     ///< metrics.jsonl: MetricsLog
  std::string profile;     ///< profile.jsonl: io/profile.h
  std::string checkpoint;  ///< checkpoint.safetensors: Checkpoint
  std::string best;        ///< best.safetensors: Checkpoint of only the parameters
  std::string report;      ///< report.html
};

/// Locks a run's folder: while this lives, no other process can lock the same folder. The system
/// releases the lock however the process ends.
class RunLock {
 public:
  /// Creates the folder if needed, and removes temporary files of an interrupted write. Throws an
  /// Error if another process has the lock.
  explicit RunLock(const std::string& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace addnorm::run
