#pragma once

#include <atomic>
#include <csignal>
#include <thread>

namespace addnorm::cli {

/// While it lives, Ctrl+C, SIGTERM and SIGHUP (the terminal was closed) stop a run after its
/// current step, with a line on standard error; a second signal ends the program. SIGUSR1 stops a
/// run too: mpirun forwards it and gives all processes enough time. A signal that the process
/// inherited as ignored stays ignored: nohup ignores SIGHUP, and a shell the SIGINT of a job in the
/// background.
///
/// One thread waits for the signals, and all other threads, which must be started later, block
/// them. No handler may run on a computing thread, because oneDNN's products use the stack
/// pointer's register for other values. A closed pipe does not end the program.
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
