#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace addnorm::train {

/// The processes that train one model together, from the view of one of them. All processes must
/// make the same calls in the same order. One order applies to exchanges and gather(), and a
/// separate one to the gathers that were started.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual std::size_t rank() const = 0;  ///< from 0
  virtual std::size_t size() const = 0;

  /// Fills `all` with every process's `mine`, in order of rank; all have the same size.
  virtual void gather(std::span<const std::byte> mine, std::span<std::byte> all) = 0;

  /// Starts to send part r of `send` to process r, for all r, and to fill part r of `receive` with
  /// the data that r sends here. `slot` is a small number without an operation in progress.
  virtual void start_exchange(std::size_t slot, std::span<const std::byte> send,
                              std::span<std::byte> receive) = 0;
  /// Starts a gather(); this process's part of `all` must be in its place already.
  virtual void start_gather(std::size_t slot, std::span<std::byte> all) = 0;
  /// Returns whether a slot's operation is complete, and lets operations progress.
  virtual bool is_done(std::size_t slot) = 0;
  virtual void wait(std::size_t slot) = 0;

  /// Adds in order of rank: the bits are the same in all processes.
  double sum(double mine);
  bool any(bool mine) { return sum(mine ? 1 : 0) > 0; }
  /// Returns the first text that is not empty, cut to 500 bytes; empty if all are.
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
