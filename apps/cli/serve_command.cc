#include <fmt/format.h>
#include <httplib.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "base/require.h"
#include "cli/command.h"
#include "cli/own_files.h"
#include "cli/run_folders.h"

namespace addnorm {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHost = "127.0.0.1";

struct ServeFlags {
  std::uint16_t port = 8080;
  std::string folder;  ///< empty: the one that came with the program
  std::string runs;
};

/// Sends a file as it is. Otherwise its text would be compressed anew for each request, which takes
/// many times longer than sending it to the same machine.
void send_uncompressed(const httplib::Request& request, httplib::Response& response) {
  // Their names change with what they hold, so browsers may keep them, for when this has ended.
  const bool is_named_by_content = request.path.starts_with("/assets/");
  response.set_header("Cache-Control",
                      is_named_by_content ? "max-age=31536000, immutable" : "no-cache");
  const auto file = std::make_shared<const std::string>(std::move(response.body));
  const std::string type = response.get_header_value("Content-Type");
  response.headers.erase("Content-Type");  // the next call adds it
  response.body.clear();
  response.set_content_provider(
      file->size(), type, [file](std::size_t offset, std::size_t length, httplib::DataSink& sink) {
        return sink.write(file->data() + offset, length);
      });
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
  httplib::Server server;
  server.set_file_extension_and_mimetype_mapping("js", "text/javascript");
  server.set_file_extension_and_mimetype_mapping("wasm", "application/wasm");
  server.set_mount_point("/", flags.folder);
  server.set_file_request_handler(send_uncompressed);
  server.set_socket_options([](socket_t socket) {  // the default lets two programs share a port
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.set_error_handler([](const httplib::Request& request, httplib::Response& response) {
    response.set_content(fmt::format("{}: {}\n", response.status, request.path), "text/plain");
  });
  if (!flags.runs.empty()) answer_about_runs(server, flags.runs);
  int port = flags.port;
  if (port == 0) {
    port = server.bind_to_any_port(kHost);
  } else if (!server.bind_to_port(kHost, port)) {
    port = -1;
  }
  require(port > 0, "--port: {} cannot be listened on; expected a free port, 0 for any",
          flags.port);
  const std::string address = fmt::format("http://{}:{}", kHost, port);
  if (flags.runs.empty()) {
    fmt::print("The tutorial is at {} until Ctrl+C\n", address);
  } else {
    fmt::print("The runs are at {0}/runs.html, the tutorial at {0} until Ctrl+C\n", address);
  }
  std::fflush(stdout);
  require(server.listen_after_bind(), "the server has failed");
  return kDone;
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

}  // namespace addnorm
