#include "cli/run_folders.h"

#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <functional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/require.h"

namespace addnorm::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = "config.json";

/// A folder is a run if it has a config.json.
struct FoundRun {
  Descriptor folder;
  OpenFile config;

  explicit FoundRun(Descriptor opened) : folder(std::move(opened)) {
    if (folder) config = OpenFile(folder, kConfig);
  }
  explicit operator bool() const { return static_cast<bool>(config); }
};

std::string name_of(const fs::path& folder) {
  std::error_code error;
  return fs::canonical(folder, error).filename().string();
}

/// Opens the folder of --runs.
FoundRun open_runs(const fs::path& folder) {
  FoundRun top(open_folder(folder));
  require(static_cast<bool>(top.folder), "--runs: {} cannot be read", folder.string());
  return top;
}

/// Calls `use` with the name of each run and the run. Only one run is open at a time.
template <typename Use>
void for_each_run(const fs::path& folder, const Use& use) {
  const FoundRun top = open_runs(folder);
  if (top) return use(name_of(folder), top);
  for (const std::string& outer_name : folder_names(top.folder)) {
    const FoundRun outer(open_folder(top.folder, outer_name.c_str()));
    if (!outer.folder) continue;  // it was removed, or it is a link
    if (outer) {
      use(outer_name, outer);
      continue;
    }
    for (const std::string& name : folder_names(outer.folder)) {
      const FoundRun inner(open_folder(outer.folder, name.c_str()));
      if (inner) use(outer_name + "/" + name, inner);
    }
  }
}

/// Returns a run that for_each_run() would give this name; false if there is none.
FoundRun find_run(const fs::path& folder, const std::string& name) {
  const auto open = [](const FoundRun& parent, const std::string& entry) {
    const bool is_entry =
        !entry.empty() && entry != "." && entry != ".." && entry.find('/') == std::string::npos;
    return FoundRun(is_entry ? open_folder(parent.folder, entry.c_str()) : Descriptor());
  };
  FoundRun top = open_runs(folder);
  if (top) return name == name_of(folder) ? std::move(top) : FoundRun(Descriptor());
  const std::size_t slash = name.find('/');
  FoundRun outer = open(top, name.substr(0, slash));
  if (slash == std::string::npos) return outer;
  return outer || !outer.folder ? FoundRun(Descriptor()) : open(outer, name.substr(slash + 1));
}

/// The last lines of their kinds in a part of metrics.jsonl; null if there is none.
struct LastLines {
  io::Json step, validation, stopped;

  bool has_all() const { return !step.is_null() && !validation.is_null(); }
};

/// Reads complete lines from the last one back, until it has found all. A line that is not JSON
/// counts as none. A run that went on after it was stopped is not stopped any more.
LastLines last_lines(std::string_view text) {
  LastLines last;
  while (!text.empty() && !last.has_all()) {
    const std::size_t newline = text.substr(0, text.size() - 1).rfind('\n');
    const std::size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
    const std::string_view line = text.substr(begin);
    text.remove_suffix(line.size());
    const auto take = [&](std::string_view key, io::Json& kept) {
      if (kept.is_null() && line.find(key) != std::string_view::npos)
        kept = io::try_parse_json(line).value_or(nullptr);
    };
    if (last.step.is_null()) take(R"("stopped")", last.stopped);
    take(R"("loss")", last.step);
    take(R"("validation_loss")", last.validation);
  }
  return last;
}

/// Returns the value of a key; null if there is none of type T.
template <typename T>
io::Json value_at(const io::Json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && io::fits<T>(*found) ? *found : io::Json();
}

/// Whether a process that trains holds the run's lock.
bool is_locked(const Descriptor& run) {
  const OpenFile lock(run, ".lock");
  // Closing the file also releases the lock.
  return lock && ::flock(lock.descriptor(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

/// Returns the settings of a run. Throws an Error if they cannot be read.
io::Json read_config(const OpenFile& config) {
  constexpr std::uint64_t kMost = 1 << 20;
  require(config.size() <= kMost, "config.json: has more than {} bytes", kMost);
  io::Json settings = io::parse_json(config.read(0), kConfig);
  require(settings.is_object(), "config.json: is not a JSON object");
  return settings;
}

/// Returns the content of a run's file from the requested byte on; empty if there is no file yet.
HttpAnswer rest_answer(OpenFile file, const HttpRequest& request) {
  const auto from = request.query.find("from");
  std::uint64_t begin = 0;
  if (from != request.query.end()) {
    const char* const last = from->second.data() + from->second.size();
    const auto [end, error] = std::from_chars(from->second.data(), last, begin);
    if (error != std::errc() || end != last) return http_error(400, request);
  }
  HttpAnswer answer;
  answer.content_type = "application/x-ndjson";
  answer.file = std::move(file);
  answer.begin = std::min(begin, answer.file.size());
  answer.headers["File-Size"] = std::to_string(answer.file.size());
  return answer;
}

/// The parts of "/api/runs/NAME/metrics"; a name may have slashes.
struct FilePath {
  std::string name;
  std::string file;
};
std::optional<FilePath> parse_file_path(std::string_view path) {
  constexpr std::string_view kPrefix = "/api/runs/";
  if (!path.starts_with(kPrefix)) return std::nullopt;
  path.remove_prefix(kPrefix.size());
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return std::nullopt;
  FilePath parts{std::string(path.substr(0, slash)), std::string(path.substr(slash + 1))};
  if (parts.file != "metrics" && parts.file != "profile") return std::nullopt;
  return parts;
}

HttpAnswer file_answer(const fs::path& folder, const FilePath& path, const HttpRequest& request) {
  const FoundRun run = find_run(folder, path.name);
  if (!run) return http_error(404, request);
  return rest_answer(OpenFile(run.folder, (path.file + ".jsonl").c_str()), request);
}

}  // namespace

bool RunProgress::update(const OpenFile& metrics) {
  if (metrics.version() == version_) return false;
  const bool has_grown =
      metrics.version().is_same_file(version_) && metrics.size() >= version_.size;
  if (!has_grown) *this = {};
  version_ = metrics.version();

  // Validations may be rare: more of the file is read until one is found.
  constexpr std::uint64_t kMost = 1 << 22;
  const std::uint64_t size = metrics.size();
  const std::uint64_t first = std::max(lines_end_, size - std::min(size, kMost));
  for (std::uint64_t length = 1 << 16;; length *= 8) {
    const std::uint64_t begin = std::max(first, size - std::min(size, length));
    std::string text = metrics.read(begin);
    text.resize(text.rfind('\n') + 1);  // npos + 1 is 0
    LastLines last = last_lines(text);
    if (begin > first && !last.has_all()) continue;
    lines_end_ = begin + text.size();
    if (!last.step.is_null() || !last.stopped.is_null()) stopped_ = std::move(last.stopped);
    if (!last.step.is_null()) step_ = std::move(last.step);
    if (!last.validation.is_null()) validation_ = std::move(last.validation);
    return true;
  }
}

io::Json RunProgress::values() const {
  return {{"step", value_at<std::size_t>(step_, "step")},
          {"loss", value_at<double>(step_, "loss")},
          {"tokens", value_at<std::size_t>(step_, "tokens")},
          {"seconds", value_at<double>(step_, "seconds")},
          {"validation_loss", value_at<double>(validation_, "validation_loss")},
          {"stopped", value_at<std::string>(stopped_, "stopped")}};
}

void RunFolders::update(const std::string& name, const Descriptor& folder, const OpenFile& config,
                        Run& run) {
  bool has_changed = run.progress.update(OpenFile(folder, "metrics.jsonl"));
  if (config.version() != run.config_version) {
    has_changed = true;
    run.config_version = config.version();
    run.config = io::Json::object();
    run.problem.clear();
    try {
      run.config = read_config(config);
    } catch (const Error& error) {
      run.problem = error.what();
    }
  }
  io::Json json{{"name", name}, {"config", run.config}};
  json.update(run.progress.values());
  if (!run.problem.empty()) json["stopped"] = run.problem;
  const bool is_done = json["step"].is_number() && json["stopped"].is_null() &&
                       json["step"] == run.config.value("steps", io::Json());
  std::string state = is_locked(folder) ? "running" : is_done ? "finished" : "stopped";
  if (!has_changed && state == run.state) return;
  run.state = std::move(state);
  json["state"] = run.state;
  // A name that is not UTF-8 must not make the request fail.
  run.text = json.dump(-1, ' ', false, io::Json::error_handler_t::replace);
}

HttpAnswer RunFolders::list() {
  std::map<std::string, Run> runs;
  std::vector<const Run*> order;
  for_each_run(folder_, [&](const std::string& name, const FoundRun& found) {
    Run& run = runs[name];
    if (const auto known = known_.find(name); known != known_.end()) run = std::move(known->second);
    update(name, found.folder, found.config, run);
    order.push_back(&run);
  });
  known_ = std::move(runs);  // its nodes stay where they are
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [](const Run* run) { return run->config_version.nanoseconds; });
  HttpAnswer answer;
  answer.content_type = "application/json";
  for (const Run* run : order) {
    answer.text += answer.text.empty() ? '[' : ',';
    answer.text += run->text;
  }
  answer.text += answer.text.empty() ? "[]" : "]";
  return answer;
}

std::optional<HttpAnswer> RunFolders::answer(const HttpRequest& request) {
  HttpAnswer answer;
  if (request.path == "/api/runs") {
    answer = list();
  } else if (const auto path = parse_file_path(request.path)) {
    answer = file_answer(folder_, *path, request);
  } else {
    return std::nullopt;
  }
  answer.headers["Cache-Control"] = "no-store";
  return answer;
}

}  // namespace addnorm::cli
