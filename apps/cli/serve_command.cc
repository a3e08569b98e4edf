#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/require.h"
#include "cli/command.h"
#include "cli/content_coding.h"
#include "cli/http_server.h"
#include "cli/own_files.h"
#include "cli/run_folders.h"

namespace addnorm::cli {
namespace {

namespace fs = std::filesystem;

struct ServeFlags {
  std::uint16_t port = 8080;
  std::string folder;  ///< empty: the installed one
  std::string runs;
};

std::string content_type_of(const fs::path& file) {
  static const std::map<std::string, std::string, std::less<>> kTypes = {
      {".css", "text/css"},          {".html", "text/html"},        {".ico", "image/x-icon"},
      {".js", "text/javascript"},    {".json", "application/json"}, {".map", "application/json"},
      {".png", "image/png"},         {".svg", "image/svg+xml"},     {".txt", "text/plain"},
      {".wasm", "application/wasm"}, {".woff2", "font/woff2"}};
  const auto found = kTypes.find(file.extension().string());
  return found == kTypes.end() ? "application/octet-stream" : found->second;
}

/// Whether a path leads out of a folder that it is appended to.
bool leaves_folder(const fs::path& path) {
  return std::ranges::find(path, fs::path("..")) != path.end();
}

/// Opens the file itself, or its compressed form if the request accepts it.
OpenFile open_file(const fs::path& file, const HttpRequest& request, HttpAnswer& answer) {
  for (const auto& [coding, extension] : {std::pair{"br", ".br"}, {"gzip", ".gz"}}) {
    OpenFile compressed(fs::path(file) += extension);
    if (!compressed) continue;
    answer.headers["Vary"] = "Accept-Encoding";
    if (!accepts_coding(request.accept_encoding, coding)) continue;
    answer.headers["Content-Encoding"] = coding;
    return compressed;
  }
  return OpenFile(file);
}

/// Returns the file of a path, which is inside the folder; empty if the path leads out of it.
fs::path page_file(const fs::path& folder, const std::string& path) {
  if (!path.starts_with('/') || leaves_folder(path)) return {};
  fs::path file = folder;
  file += path;  // `/` would replace the folder if the path begins with two slashes
  if (path.ends_with('/')) file /= "index.html";
  return file.lexically_normal();
}

/// Returns a file of the page.
HttpAnswer page_answer(const fs::path& file, const HttpRequest& request) {
  HttpAnswer answer;
  answer.file = open_file(file, request, answer);
  if (!answer.file) return http_error(404, request);
  answer.content_type = content_type_of(file);
  // Their names depend on their content, so browsers may cache them, also for later runs.
  const bool is_named_by_content = request.path.starts_with("/assets/");
  answer.headers["Cache-Control"] =
      is_named_by_content ? "max-age=31536000, immutable" : "no-cache";
  return answer;
}

enum class Frames { kByEverySite, kByNone };

/// Sets the policy of the page, the same as in web/index.html, and the sites that may frame it.
void set_policy(Frames frames, HttpAnswer& answer) {
  std::string policy =
      "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; "
      "img-src 'self' data:";
  if (frames == Frames::kByNone) {
    policy += "; frame-ancestors 'none'";
    answer.headers["X-Frame-Options"] = "DENY";
    answer.headers["Cross-Origin-Resource-Policy"] = "same-origin";
  }
  answer.headers["Content-Security-Policy"] = policy;
}

void check(const ServeFlags& flags) {
  const char* page = flags.runs.empty() ? "index.html" : "runs.html";
  require(fs::is_regular_file(fs::path(flags.folder) / page),
          "--folder: {} has no {}; expected the tutorial's page, which `make page` builds",
          flags.folder, page);
  require(flags.runs.empty() || fs::is_directory(flags.runs),
          "--runs: {} is no folder; expected the one in which `addnorm train --out` makes runs",
          flags.runs);
}

/// Answers with the files of the folder until the program is stopped.
ExitStatus serve(const ServeFlags& flags) {
  check(flags);
  const fs::path tutorial = page_file(flags.folder, "/");
  RunFolders runs(flags.runs);
  HttpServer server(flags.port, [&](const HttpRequest& request) {
    std::optional<HttpAnswer> answer;
    if (!flags.runs.empty()) answer = runs.answer(request);
    Frames frames = Frames::kByNone;
    if (!answer) {
      // The policy follows the file, however its path is written.
      const fs::path file = page_file(flags.folder, request.path);
      answer = page_answer(file, request);
      const bool is_page = answer->content_type == content_type_of(tutorial);
      if (!is_page || file == tutorial) frames = Frames::kByEverySite;
    }
    set_policy(frames, *answer);
    return std::move(*answer);
  });
  require(server.port() > 0, "--port: {} cannot be listened on; expected a free port, 0 for any",
          flags.port);
  const std::string address = fmt::format("http://127.0.0.1:{}", server.port());
  if (flags.runs.empty()) {
    fmt::print("The tutorial is at {} until Ctrl+C\n", address);
  } else {
    fmt::print("The runs are at {0}/runs.html, the tutorial at {0} until Ctrl+C\n", address);
  }
  std::fflush(stdout);
  server.run();
  fail("the server has failed");
}

constexpr const char* kServeMeaning =
    R"(Serves the interactive tutorial to browsers on this machine, and to nobody else; with --runs also a
page of training runs, which follows those that are training.

Examples:
  addnorm serve                       the tutorial
  addnorm serve --runs out            and the runs in out/, as they train
  addnorm serve --port 0              on any free port, which it prints)";

}  // namespace

Command serve_command(CLI::App& program) {
  auto flags = std::make_shared<ServeFlags>();
  CLI::App* app = program.add_subcommand(
      "serve", "Show the interactive tutorial, or training runs, in the browser");
  app->add_option("--port", flags->port, "port to listen on; 0 for any free one (default 8080)")
      ->type_name("PORT");
  app->add_option("--folder", flags->folder,
                  "the page (default: the one that came with the program)")
      ->type_name("DIR");
  app->add_option("--runs", flags->runs, "a folder of runs of `addnorm train`, or one run")
      ->type_name("DIR");
  app->footer(kServeMeaning);
  return {app, [flags] {
            if (flags->folder.empty()) flags->folder = own_files() / "web/dist";
            return serve(*flags);
          }};
}

}  // namespace addnorm::cli
