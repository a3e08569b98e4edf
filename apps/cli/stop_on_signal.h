#pragma once

#include <atomic>
#include <csignal>
#include <thread>

namespace addnorm::cli {

/// While this lives, Ctrl+C and SIGTERM ask a run to stop after its step, and a line on standard
/// error says so; a second one ends the program. So does SIGUSR1, which mpirun hands on and leaves
/// all processes the time.
///
/// A thread waits for them, and they are blocked in all others, which must be started later: no
/// handler may run on a thread that computes, because oneDNN's products use the stack's register
/// for something else. A closed pipe ends nothing.
class StopOnSignal {
 public:
  StopOnSignal();
  ~StopOnSignal();
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

  bool is_requested() const { return is_requested_; }

 private:
  void wait();

  sigset_t signals_ = {};
  std::atomic<bool> is_requested_ = false;
  std::atomic<bool> is_over_ = false;
  std::thread waiter_;
};

}  // namespace addnorm::cli
