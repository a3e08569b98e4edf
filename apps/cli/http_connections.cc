#include "cli/http_connections.h"

#include <sys/socket.h>

#include <algorithm>

namespace addnorm::cli {
namespace {

using namespace std::chrono_literals;

constexpr HttpConnections::Clock::duration kRequestTime = 30s;  // including the idle time before it
constexpr HttpConnections::Clock::duration kAnswerTime = 300s;  // a slow tunnel to this machine

void await(HttpConnections::Connection& connection, HttpConnections::Clock::duration limit) {
  connection.since = HttpConnections::Clock::now();
  connection.limit = limit;
}

}  // namespace

HttpConnections::Connection& HttpConnections::add(int socket) {
  if (connections_.size() >= most_) {
    end(*std::ranges::min_element(connections_, {}, &Connection::since));
  }
  Connection& connection = connections_.emplace_back(Connection{.socket = socket});
  await_request(connection);
  return connection;
}

void HttpConnections::remove(const Connection& connection) {
  connections_.remove_if([&](const Connection& c) { return &c == &connection; });
}

void HttpConnections::await_request(Connection& connection) {
  await(connection, kRequestTime);
}

void HttpConnections::await_end_of_answer(Connection& connection) {
  await(connection, kAnswerTime);
}

void HttpConnections::end_late() {
  const Clock::time_point now = Clock::now();
  if (now - looked_ < 1s) return;
  looked_ = now;
  for (Connection& connection : connections_) {
    if (now - connection.since > connection.limit) end(connection);
  }
}

void HttpConnections::end(Connection& connection) {
  // the library then closes the connection and notifies us
  ::shutdown(connection.socket, SHUT_RDWR);
  connection.since = Clock::time_point::max();
}

}  // namespace addnorm::cli
