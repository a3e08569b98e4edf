#pragma once

#include <algorithm>
#include <cstddef>

namespace addnorm {
inline namespace base {

/// A loop over 0 … count, for several threads. `body(context, begin, end)` handles one range.
struct SharedLoop {
  void (*body)(const void* context, std::size_t begin, std::size_t end);
  const void* context;
  std::size_t count;
  std::size_t chunk;  ///< the size of a range; the last one of a thread's share may be smaller
};

/// Runs a loop on the caller's thread and at most `threads` − 1 threads of the process's pool. Each
/// thread has a share of the ranges, always the same one if all are equally fast, and then takes
/// ranges from the shares of others. So no range waits for a thread that sleeps or has lost its
/// core. Returns when all ranges are done; then the first exception is rethrown.
///
/// The pool's threads start when they are first needed. After a loop they spin for a short time,
/// because the next loop often follows at once, and then sleep; so does the waiting caller.
/// OMP_WAIT_POLICY (active, passive) and GOMP_SPINCOUNT set the spinning time, as for GNU's OpenMP.
/// Several callers share the pool's threads. A loop inside a loop runs on one thread.
void run_on_pool(const SharedLoop& loop, std::size_t threads);

/// Returns whether this thread is running a range of a loop.
bool is_in_loop();

}  // namespace base
}  // namespace addnorm
