#pragma once

#include <chrono>
#include <cstddef>
#include <list>

namespace addnorm::cli {

/// The connections of a server, so that none can keep it from others: each has a time in which its
/// request must be whole, and its answer taken; where there is no room for another, the one gives
/// way that has made no such step for longest.
class HttpConnections {
 public:
  using Clock = std::chrono::steady_clock;

  struct Connection {
    int socket;
    Clock::time_point since;  ///< the last step
    Clock::duration limit;    ///< of the time until the next
  };

  explicit HttpConnections(std::size_t most) : most_(most) {}

  /// A connection on which a request is awaited. The reference is good until `remove`.
  Connection& add(int socket);
  void remove(const Connection& connection);

  static void await_request(Connection& connection);
  static void await_end_of_answer(Connection& connection);

  /// Ends what is late, once a second.
  void end_late();

 private:
  static void end(Connection& connection);

  const std::size_t most_;
  std::list<Connection> connections_;
  Clock::time_point looked_{};
};

}  // namespace addnorm::cli
