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
  std::string best;        ///< best.safetensors: Checkpoint of parameters alone
  std::string report;      ///< report.html
};

/// Holds a run's folder: while this lives, no other process can have one of the same folder. The
/// system lets go of it however the process ends.
class RunLock {
 public:
  /// Makes the folder where it is missing, and removes what an interrupted write has left there.
  /// Throws Error where another process has it.
  explicit RunLock(const std::string& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace addnorm::run
