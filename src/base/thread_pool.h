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

/// Runs a loop on the caller's thread and at most `threads` − 1 threads of the process's pool.
/// Each thread has a share of the ranges, always the same one while all keep pace, and then takes
/// ranges from the shares of others: no range waits for a thread that sleeps or has lost its core.
/// Returns when all ranges are done. The first exception is thrown again then.
///
/// The pool's threads start when they are first needed. After a loop they spin for a short time,
/// because the next loop often follows at once, and then sleep; so does the caller while it waits.
/// OMP_WAIT_POLICY (active, passive) and GOMP_SPINCOUNT set how long they spin, as they do for
/// GNU's OpenMP. Several callers share the pool's threads. A loop inside a loop runs on one thread.
void run_on_pool(const SharedLoop& loop, std::size_t threads);

/// Returns whether this thread runs a range of a loop.
bool is_in_loop();

}  // namespace base
}  // namespace addnorm
