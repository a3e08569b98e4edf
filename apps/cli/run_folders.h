#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "cli/http_server.h"
#include "cli/open_file.h"
#include "io/json.h"

namespace addnorm::cli {

/// A run's progress, from its metrics.jsonl.
class RunProgress {
 public:
  /// Reads the lines that were added since the last call, or the last 4 MiB of a longer or new
  /// file. Returns whether anything has changed.
  bool update(const OpenFile& metrics);

  /// "step", "loss", "tokens", "seconds", "validation_loss" and "stopped"; null if unknown.
  io::Json values() const;

 private:
  FileVersion version_;
  std::uint64_t lines_end_ = 0;  ///< the end of the last complete line that was read
  io::Json step_, validation_, stopped_;
};

/// Answers requests about the finished and unfinished runs of `addnorm train` in a folder. The
/// folder may itself be a run, and a run may be one level deeper. No link is followed below the
/// folder. What is known about a run is kept, so a request reads only what has changed.
class RunFolders {
 public:
  explicit RunFolders(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Returns nothing for other paths than these: GET /api/runs returns a JSON list of all runs, the
  /// newest first. GET /api/runs/NAME/metrics?from=BYTE returns metrics.jsonl from there on, with
  /// its size in the header File-Size; …/profile?from=BYTE returns profile.jsonl in the same way.
  std::optional<HttpAnswer> answer(const HttpRequest& request);

 private:
  /// The contents of a run's files when they were last read.
  struct Run {
    FileVersion config_version;
    io::Json config;
    std::string problem;  ///< why the config cannot be read, or empty
    RunProgress progress;
    std::string state;
    std::string text;  ///< the run as JSON
  };

  HttpAnswer list();
  void update(const std::string& name, const Descriptor& folder, const OpenFile& config, Run& run);

  std::filesystem::path folder_;
  std::map<std::string, Run> known_;  ///< by name
};

}  // namespace addnorm::cli
