#include "cli/run_folders.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "io/json.h"

namespace addnorm::cli {
namespace {

namespace fs = std::filesystem;

bool is_own_file(const fs::path& file) {
  std::error_code error;
  return fs::symlink_status(file, error).type() == fs::file_type::regular;
}

bool is_run(const fs::path& folder) {
  return is_own_file(folder / "config.json");
}

/// Returns the runs by name. Only files found here are read, so no name leads out of the folder.
std::map<std::string, fs::path> find_runs(const fs::path& folder) {
  std::error_code error;
  if (is_run(folder)) return {{fs::canonical(folder, error).filename().string(), folder}};
  std::map<std::string, fs::path> runs;
  fs::recursive_directory_iterator it(folder, fs::directory_options::skip_permission_denied, error);
  for (; it != fs::recursive_directory_iterator(); it.increment(error)) {
    const fs::path& path = it->path();
    const bool found = it->symlink_status(error).type() == fs::file_type::directory && is_run(path);
    if (found) runs[path.lexically_relative(folder).generic_string()] = path;
    if (found || it.depth() == 1) it.disable_recursion_pending();
  }
  return runs;
}

/// Returns the size of a file; 0 if it does not exist yet.
std::uintmax_t size_of(const fs::path& file) {
  std::error_code error;
  const std::uintmax_t size = is_own_file(file) ? fs::file_size(file, error) : 0;
  return error ? 0 : size;
}

/// Returns the bytes of a file, beginning with `from`.
std::string read_from(const fs::path& file, std::uintmax_t from) {
  if (from >= size_of(file)) return "";
  std::ifstream stream(file, std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(from));
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Returns the last complete line that contains `part`; null if there is none, or if it is not
/// JSON.
io::Json last_line_with(std::string_view text, std::string_view part) {
  text = text.substr(0, text.rfind('\n') + 1);
  const std::size_t at = text.rfind(part);
  if (at == std::string_view::npos) return nullptr;
  const std::size_t begin = text.rfind('\n', at) + 1;  // npos + 1 is 0
  return io::try_parse_json(text.substr(begin, text.find('\n', at) - begin)).value_or(nullptr);
}

/// Returns the value of a key; null if there is none of type T.
template <typename T>
io::Json value_at(const io::Json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && io::fits<T>(*found) ? *found : io::Json();
}

/// Returns a run's progress. Validations may be rare: it reads more of the file until it finds one,
/// but not all of a long file at every request.
io::Json progress(const fs::path& metrics) {
  constexpr std::uintmax_t kMost = 1 << 22;
  const std::uintmax_t size = size_of(metrics);
  for (std::uintmax_t length = 1 << 16;; length *= 8) {
    const std::string text = read_from(metrics, size - std::min(size, length));
    const io::Json step = last_line_with(text, R"("loss")");
    const io::Json validation = last_line_with(text, R"("validation_loss")");
    const io::Json stopped = last_line_with(text, R"("stopped")");
    const bool is_whole = length >= std::min(size, kMost);
    if (!is_whole && (step.is_null() || validation.is_null())) continue;
    return {{"step", value_at<std::size_t>(step, "step")},
            {"loss", value_at<double>(step, "loss")},
            {"tokens", value_at<std::size_t>(step, "tokens")},
            {"seconds", value_at<double>(step, "seconds")},
            {"validation_loss", value_at<double>(validation, "validation_loss")},
            {"stopped", value_at<std::string>(stopped, "stopped")}};
  }
}

/// Whether a process that trains holds its lock.
bool is_locked(const fs::path& file) {
  const int lock = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (lock < 0) return false;
  const bool locked = ::flock(lock, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(lock);  // also releases the lock
  return locked;
}

/// Returns the settings of a run. Throws an Error if they cannot be read.
io::Json read_config(const fs::path& run) {
  constexpr std::uintmax_t kMost = 1 << 20;
  const fs::path file = run / "config.json";
  require(size_of(file) <= kMost, "config.json: has more than {} bytes", kMost);
  return io::parse_json(read_from(file, 0), "config.json");
}

io::Json description(const std::string& name, const fs::path& run) {
  io::Json json{{"name", name}, {"config", io::Json::object()}};
  json.update(progress(run / "metrics.jsonl"));
  try {
    json["config"] = read_config(run);
  } catch (const Error& error) {
    json["stopped"] = error.what();
  }
  const bool is_done = json["step"].is_number() && json["stopped"].is_null() &&
                       json["step"] == json["config"].value("steps", io::Json());
  json["state"] = is_locked(run / ".lock") ? "running" : is_done ? "finished" : "stopped";
  return json;
}

/// Returns all runs, the newest first.
io::Json list_of(const std::map<std::string, fs::path>& runs) {
  std::vector<std::pair<fs::file_time_type, io::Json>> list;
  for (const auto& [name, path] : runs) {
    std::error_code error;
    list.emplace_back(fs::last_write_time(path / "config.json", error), description(name, path));
  }
  std::ranges::stable_sort(list, std::ranges::greater(), &decltype(list)::value_type::first);
  io::Json json = io::Json::array();
  for (auto& [time, run] : list) json.push_back(std::move(run));
  return json;
}

HttpAnswer list_answer(const fs::path& folder) {
  HttpAnswer answer;
  // A name that is not UTF-8 must not make the request fail.
  answer.text = list_of(find_runs(folder)).dump(-1, ' ', false, io::Json::error_handler_t::replace);
  answer.content_type = "application/json";
  return answer;
}

/// Returns the content of a run's file from the requested byte on; empty if there is no file yet.
HttpAnswer rest_answer(const fs::path& file, const HttpRequest& request) {
  const auto from = request.query.find("from");
  std::uint64_t begin = 0;
  if (from != request.query.end()) {
    const char* const last = from->second.data() + from->second.size();
    const auto [end, error] = std::from_chars(from->second.data(), last, begin);
    if (error != std::errc() || end != last) return http_error(400, request);
  }
  HttpAnswer answer;
  answer.content_type = "application/x-ndjson";
  answer.file = OpenFile(file, Links::kRefuse);
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

}  // namespace

std::optional<HttpAnswer> answer_about_runs(const fs::path& folder, const HttpRequest& request) {
  HttpAnswer answer;
  if (request.path == "/api/runs") {
    answer = list_answer(folder);
  } else if (const auto parts = parse_file_path(request.path)) {
    const auto runs = find_runs(folder);
    const auto run = runs.find(parts->name);
    answer = run == runs.end() ? http_error(404, request)
                               : rest_answer(run->second / (parts->file + ".jsonl"), request);
  } else {
    return std::nullopt;
  }
  answer.headers["Cache-Control"] = "no-store";
  return answer;
}

}  // namespace addnorm::cli
