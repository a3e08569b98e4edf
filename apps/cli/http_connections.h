#pragma once

#include <chrono>
#include <cstddef>
#include <list>

namespace addnorm::cli {

/// The connections of a server. Limits keep a connection from blocking others: its request must be
/// complete, and its answer received, within a time. If there is no room for another one, the
/// connection with the longest time since its last step is closed.
class HttpConnections {
 public:
  using Clock = std::chrono::steady_clock;

  struct Connection {
    int socket;
    Clock::time_point since;  ///< the last step
    Clock::duration limit;    ///< longest time until the next step
  };

  explicit HttpConnections(std::size_t most) : most_(most) {}

  /// Adds a connection that waits for a request. The reference is valid until `remove`.
  Connection& add(int socket);
  void remove(const Connection& connection);

  static void await_request(Connection& connection);
  static void await_end_of_answer(Connection& connection);

  /// Closes late connections, once a second.
  void end_late();

 private:
  static void end(Connection& connection);

  const std::size_t most_;
  std::list<Connection> connections_;
  Clock::time_point looked_{};
};

}  // namespace addnorm::cli
