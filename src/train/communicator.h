#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace addnorm::train {

/// The processes that train one model together, as one of them sees them. What is started or called
/// here every process must start or call, in one order: exchanges and gather() in one, the gathers
/// that were started in another.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual std::size_t rank() const = 0;  ///< from 0
  virtual std::size_t size() const = 0;

  /// `all` becomes what every process has given as `mine`, equally much each, in order of rank.
  virtual void gather(std::span<const std::byte> mine, std::span<std::byte> all) = 0;

  /// Starts to send part r of `send` to process r, for all r, and to fill part r of `receive` with
  /// what r sends here. `slot` is a small number without an operation in progress.
  virtual void start_exchange(std::size_t slot, std::span<const std::byte> send,
                              std::span<std::byte> receive) = 0;
  /// The same for gather(), where this process's part of `all` is in its place already.
  virtual void start_gather(std::size_t slot, std::span<std::byte> all) = 0;
  /// Whether a slot's operation is complete; what is in progress goes on.
  virtual bool is_done(std::size_t slot) = 0;
  virtual void wait(std::size_t slot) = 0;

  /// In order of rank: the same bits everywhere.
  double sum(double mine);
  bool any(bool mine) { return sum(mine ? 1 : 0) > 0; }
  /// The first text that is not empty, cut to 500 bytes; empty where all are.
  std::string first_text(std::string mine);

 protected:
  Communicator() = default;
  Communicator(const Communicator&) = default;
  Communicator& operator=(const Communicator&) = default;

 private:
  std::vector<double> terms_;
};

/// A process that trains alone.
Communicator& one_process();

}  // namespace addnorm::train
