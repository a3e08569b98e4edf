#include "cli/http_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <memory>
#include <optional>
#include <string_view>

#include "cli/byte_range.h"
#include "cli/http_origin.h"

namespace addnorm::cli {
namespace {

/// The memory for a request: its path, arguments and headers. A larger request is answered with 414
/// or 431, or the connection is closed.
constexpr std::size_t kRequestBytes = 32768;
constexpr std::size_t kBlockBytes = 65536;  // of a file, read at a time
constexpr unsigned kMostConnections = 2048;
constexpr unsigned kOtherFiles = 64;  // open files besides connections and the files sent on them

std::optional<std::string_view> header_of(MHD_Connection* connection, const char* name) {
  const char* value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
  return value == nullptr ? std::nullopt : std::optional<std::string_view>(value);
}

/// Returns the requested part of the content. Only GET supports ranges. A range with If-Range is
/// ignored, because no content here has a version.
RangeRequest range_of(MHD_Connection* connection, std::string_view method, std::uint64_t size) {
  const bool is_for_any_version = !header_of(connection, MHD_HTTP_HEADER_IF_RANGE);
  if (method != MHD_HTTP_METHOD_GET || !is_for_any_version) return {};
  return parse_range(header_of(connection, MHD_HTTP_HEADER_RANGE), size);
}

/// Returns the part of the content to send, and sets the answer's status and headers.
ByteRange select_range(const RangeRequest& request, std::uint64_t size, HttpAnswer& answer) {
  if (answer.status != MHD_HTTP_OK) return {0, size};
  answer.headers[MHD_HTTP_HEADER_ACCEPT_RANGES] = "bytes";
  switch (request.kind) {
    case RangeRequest::kNone:
      return {0, size};
    case RangeRequest::kUnsatisfiable:
      answer = {.status = MHD_HTTP_RANGE_NOT_SATISFIABLE};
      answer.headers[MHD_HTTP_HEADER_CONTENT_RANGE] = fmt::format("bytes */{}", size);
      return {0, 0};
    case RangeRequest::kSatisfiable:
      break;
  }
  const ByteRange& range = request.range;
  answer.status = MHD_HTTP_PARTIAL_CONTENT;
  answer.headers[MHD_HTTP_HEADER_CONTENT_RANGE] =
      fmt::format("bytes {}-{}/{}", range.begin, range.end - 1, size);
  return range;
}

/// A file that is being sent.
struct FileReader {
  OpenFile file;
  std::uint64_t begin;

  /// Reads bytes from `at` on. If the file has become shorter, the connection is closed, because
  /// the length has been sent.
  static ssize_t read(void* reader, std::uint64_t at, char* to, std::size_t size) {
    const FileReader& self = *static_cast<const FileReader*>(reader);
    const ssize_t n =
        ::pread(self.file.descriptor(), to, size, static_cast<off_t>(self.begin + at));
    return n > 0 ? n : MHD_CONTENT_READER_END_WITH_ERROR;
  }
  static void destroy(void* reader) { delete static_cast<FileReader*>(reader); }
};

MHD_Response* make_response(HttpAnswer& answer, const ByteRange& range) {
  const std::uint64_t length = range.end - range.begin;
  if (!answer.file || length == 0) {
    return MHD_create_response_from_buffer(length, answer.text.data() + (length ? range.begin : 0),
                                           MHD_RESPMEM_MUST_COPY);
  }
  auto reader =
      std::make_unique<FileReader>(FileReader{std::move(answer.file), answer.begin + range.begin});
  MHD_Response* response = MHD_create_response_from_callback(length, kBlockBytes, &FileReader::read,
                                                             reader.get(), &FileReader::destroy);
  if (response != nullptr) reader.release();  // now the response deletes it
  return response;
}

MHD_Result send(MHD_Connection* connection, std::string_view method, HttpAnswer answer) {
  const std::uint64_t size = answer.file ? answer.file.size() - answer.begin : answer.text.size();
  const ByteRange range = select_range(range_of(connection, method, size), size, answer);
  MHD_Response* const response = make_response(answer, range);
  if (response == nullptr) return MHD_NO;  // closes the connection
  answer.headers[MHD_HTTP_HEADER_CONTENT_TYPE] = answer.content_type;
  answer.headers["X-Content-Type-Options"] = "nosniff";
  answer.headers["Referrer-Policy"] = "no-referrer";
  for (const auto& [name, value] : answer.headers) {
    MHD_add_response_header(response, name.c_str(), value.c_str());
  }
  const MHD_Result queued = MHD_queue_response(connection, answer.status, response);
  MHD_destroy_response(response);
  return queued;
}

MHD_Result add_query(void* query, MHD_ValueKind, const char* name, const char* value) {
  (*static_cast<std::map<std::string, std::string>*>(query))[name] = value ? value : "";
  return MHD_YES;
}

HttpAnswer answer_to(const HttpServer::Handler& handler, MHD_Connection* connection,
                     const char* path) {
  HttpRequest request{.path = path};
  request.accept_encoding = header_of(connection, MHD_HTTP_HEADER_ACCEPT_ENCODING).value_or("");
  MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, add_query, &request.query);
  try {
    return handler(request);
  } catch (const std::exception&) {
    return http_error(MHD_HTTP_INTERNAL_SERVER_ERROR, request);
  }
}

/// Returns the error for a request with these headers, if it must be refused: it comes from a page
/// of another machine, or has an unsupported method or a body.
std::optional<HttpAnswer> refusal(MHD_Connection* connection, std::string_view method,
                                  const char* path) {
  const auto header = [&](const char* name) { return header_of(connection, name); };
  const auto refuse = [&](unsigned status) { return http_error(status, {.path = path}); };
  if (!names_this_machine(header(MHD_HTTP_HEADER_HOST).value_or(""))) {
    return refuse(MHD_HTTP_MISDIRECTED_REQUEST);
  }
  if (!is_from_this_machine(header(MHD_HTTP_HEADER_ORIGIN).value_or("http://localhost"))) {
    return refuse(MHD_HTTP_FORBIDDEN);
  }
  if (method != MHD_HTTP_METHOD_GET && method != MHD_HTTP_METHOD_HEAD) {
    HttpAnswer answer = refuse(MHD_HTTP_METHOD_NOT_ALLOWED);
    answer.headers[MHD_HTTP_HEADER_ALLOW] = "GET, HEAD";
    return answer;
  }
  const bool has_body = header(MHD_HTTP_HEADER_CONTENT_LENGTH).value_or("0") != "0" ||
                        header(MHD_HTTP_HEADER_TRANSFER_ENCODING);
  if (has_body) return refuse(MHD_HTTP_CONTENT_TOO_LARGE);
  return std::nullopt;
}

HttpConnections::Connection& state_of(MHD_Connection* connection) {
  return *static_cast<HttpConnections::Connection*>(
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context);
}

/// Called when a request's headers have arrived, with *state null, and again when it is complete.
/// An answer to the first call would close the connection.
MHD_Result on_request(void* handler, MHD_Connection* connection, const char* path,
                      const char* method_name, const char*, const char*, std::size_t*,
                      void** state) {
  const std::string_view method = method_name;
  try {
    if (*state == nullptr) {
      if (auto answer = refusal(connection, method, path)) {
        return send(connection, method, std::move(*answer));
      }
      *state = handler;
      return MHD_YES;
    }
    HttpConnections::await_end_of_answer(state_of(connection));
    const auto& answer = *static_cast<const HttpServer::Handler*>(handler);
    return send(connection, method, answer_to(answer, connection, path));
  } catch (const std::exception&) {  // out of memory
    return MHD_NO;
  }
}

void on_end_of_answer(void*, MHD_Connection* connection, void**, MHD_RequestTerminationCode) {
  HttpConnections::await_request(state_of(connection));
}

void on_connection(void* connections, MHD_Connection* connection, void** state,
                   MHD_ConnectionNotificationCode what) {
  auto& all = *static_cast<HttpConnections*>(connections);
  if (what == MHD_CONNECTION_NOTIFY_STARTED) {
    const int socket =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    *state = &all.add(socket);
  } else {
    all.remove(*static_cast<HttpConnections::Connection*>(*state));
  }
}

/// Returns the largest number of connections, each with an open file.
unsigned most_connections() {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  constexpr rlim_t kWanted = 2 * kMostConnections + kOtherFiles;
  files.rlim_cur = std::max(files.rlim_cur, std::min(files.rlim_max, kWanted));
  ::setrlimit(RLIMIT_NOFILE, &files);
  return static_cast<unsigned>(
      (std::clamp<rlim_t>(files.rlim_cur, kOtherFiles + 2, kWanted) - kOtherFiles) / 2);
}

}  // namespace

HttpAnswer http_error(unsigned status, const HttpRequest& request) {
  HttpAnswer answer;
  answer.status = status;
  answer.text = fmt::format("{}: {}\n", status, request.path);
  return answer;
}

HttpServer::HttpServer(std::uint16_t port, Handler handler)
    : handler_(std::move(handler)), connections_(most_connections()) {
  std::signal(SIGPIPE, SIG_IGN);  // a browser may close the connection during a file
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  daemon_ =
      MHD_start_daemon(MHD_USE_AUTO, port, nullptr, nullptr, on_request, &handler_,
                       MHD_OPTION_SOCK_ADDR, &address,                      //
                       MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,                //
                       MHD_OPTION_CONNECTION_MEMORY_LIMIT, kRequestBytes,   //
                       MHD_OPTION_CONNECTION_LIMIT, kMostConnections + 16,  // some are being closed
                       MHD_OPTION_NOTIFY_CONNECTION, on_connection, &connections_,
                       MHD_OPTION_NOTIFY_COMPLETED, on_end_of_answer, nullptr, MHD_OPTION_END);
}

HttpServer::~HttpServer() {
  if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
}

std::uint16_t HttpServer::port() const {
  if (daemon_ == nullptr) return 0;
  const MHD_DaemonInfo* info = MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_BIND_PORT);
  return info == nullptr ? 0 : info->port;
}

void HttpServer::run() {
  constexpr int kMilliseconds = 1000;
  while (daemon_ != nullptr && MHD_run_wait(daemon_, kMilliseconds) == MHD_YES) {
    connections_.end_late();
  }
}

}  // namespace addnorm::cli
