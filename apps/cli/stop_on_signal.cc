#include "cli/stop_on_signal.h"

#include <cstdlib>
#include <ctime>

#include "cli/processes.h"
#include "report/terminal.h"

namespace addnorm::cli {

StopOnSignal::StopOnSignal() {
  std::signal(SIGPIPE, SIG_IGN);
  sigemptyset(&signals_);
  for (const int signal : {SIGHUP, SIGINT, SIGTERM, SIGUSR1}) {
    struct sigaction inherited {};
    ::sigaction(signal, nullptr, &inherited);
    if (inherited.sa_handler != SIG_IGN) sigaddset(&signals_, signal);
  }
  ::pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  waiter_ = std::thread([this] { wait(); });
}

StopOnSignal::~StopOnSignal() {
  is_over_ = true;
  waiter_.join();
}

namespace {

void announce_stop() {
  report::Terminal screen(stderr);
  const bool after_bar = screen.style().cursor == report::Cursor::kMovesBack;
  screen.print("{}Stopping after this step (again: at once)\n", after_bar ? "\n" : "");
}

}  // namespace

void StopOnSignal::wait() {
  constexpr timespec kMoment{0, 50'000'000};
  while (!is_over_) {
    const int signal = ::sigtimedwait(&signals_, nullptr, &kMoment);
    if (signal <= 0) continue;
    if (is_requested_.exchange(true)) std::_Exit(128 + signal);
    if (is_first_process()) announce_stop();
  }
}

}  // namespace addnorm::cli
