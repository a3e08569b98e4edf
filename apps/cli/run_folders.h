#pragma once

#include <filesystem>

namespace httplib {
class Server;
}

namespace addnorm {

/// Answers about the runs that `addnorm train` has left, or is writing, in the folder; the folder
/// may itself be a run, and a run may stand one folder deeper.
/// GET /api/runs gives a JSON list of all, the newest first; GET /api/runs/NAME/metrics?from=BYTE
/// metrics.jsonl from there on, with its size as the header File-Size; …/profile?from=BYTE
/// profile.jsonl likewise.
/// Links are not followed.
void answer_about_runs(httplib::Server& server, const std::filesystem::path& folder);

}  // namespace addnorm
