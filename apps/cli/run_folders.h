#pragma once

#include <filesystem>
#include <optional>

#include "cli/http_server.h"

namespace addnorm::cli {

/// Answers requests about the finished and unfinished runs of `addnorm train` in the folder. The
/// folder may itself be a run, and a run may be one level deeper. Returns nothing for other paths.
/// GET /api/runs returns a JSON list of all runs, the newest first. GET
/// /api/runs/NAME/metrics?from=BYTE returns metrics.jsonl from there on, with its size in the
/// header File-Size; …/profile?from=BYTE returns profile.jsonl in the same way. Links are not
/// followed.
std::optional<HttpAnswer> answer_about_runs(const std::filesystem::path& folder,
                                            const HttpRequest& request);

}  // namespace addnorm::cli
