#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "cli/http_connections.h"
#include "cli/open_file.h"

struct MHD_Daemon;

namespace addnorm::cli {

/// GET or HEAD.
struct HttpRequest {
  std::string path;                               ///< decoded: "/a b"
  std::map<std::string, std::string> query = {};  ///< decoded: {"from", "50"}
  std::string accept_encoding = {};               ///< the header, or empty
};

/// The answer to a request: the file from byte `begin` on, or `text` if no file is open.
struct HttpAnswer {
  unsigned status = 200;
  std::string content_type = "text/plain";
  std::string text;
  OpenFile file;
  std::uint64_t begin = 0;
  std::map<std::string, std::string> headers;
};

/// Returns an answer with a status and a line of text that names it and the path.
HttpAnswer http_error(unsigned status, const HttpRequest& request);

/// Answers only browsers on this machine, for pages of this machine. It handles HTTP and is
/// independent of the content: ranges of bytes, HEAD, other methods, the origin, and the length and
/// duration of requests.
class HttpServer {
 public:
  using Handler = std::function<HttpAnswer(const HttpRequest&)>;

  /// Listens on the port, or on any free port for 0; port() is 0 if that fails. If the handler
  /// throws, the answer is 500.
  HttpServer(std::uint16_t port, Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::uint16_t port() const;
  /// Answers requests, one at a time; returns only on a system error.
  void run();

 private:
  Handler handler_;
  HttpConnections connections_;
  MHD_Daemon* daemon_ = nullptr;
};

}  // namespace addnorm::cli
