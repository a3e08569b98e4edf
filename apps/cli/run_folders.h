#pragma once

#include <filesystem>
#include <optional>

#include "cli/http_server.h"

namespace addnorm::cli {

/// Answers about the runs that `addnorm train` has left, or is writing, in the folder; the folder
/// may itself be a run, and a run may stand one folder deeper. Nothing for a path of something
/// else. GET /api/runs gives a JSON list of all, the newest first; GET
/// /api/runs/NAME/metrics?from=BYTE metrics.jsonl from there on, with its size as the header
/// File-Size; …/profile?from=BYTE profile.jsonl likewise. Links are not followed.
std::optional<HttpAnswer> answer_about_runs(const std::filesystem::path& folder,
                                            const HttpRequest& request);

}  // namespace addnorm::cli
