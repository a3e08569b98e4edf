#pragma once

#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <cstddef>

#include "base/fork.h"
#include "base/thread_pool.h"

namespace addnorm {
inline namespace base {

/// The largest number of threads. A larger request means this one: the system, or the stack of
/// another library's OpenMP region, might not have room for more.
inline constexpr std::size_t kMostThreads = 1024;

/// Returns the number of threads of a loop in this thread: OpenMP's number (OMP_NUM_THREADS,
/// omp_set_num_threads) up to kMostThreads, or one inside a loop or in a forked process.
inline std::size_t thread_count() {
#ifdef _OPENMP
  if (is_in_loop() || is_forked() || omp_in_parallel()) return 1;
  return std::min(static_cast<std::size_t>(omp_get_max_threads()), kMostThreads);
#else
  return 1;
#endif
}

/// While it lives, loops of its thread use `count` threads; 0: no change. It also affects OpenMP
/// regions of other libraries.
class ThreadCount {
 public:
  explicit ThreadCount(std::size_t count) : before_(count > 0 ? openmp_count() : 0) { set(count); }
  ~ThreadCount() { set(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  static std::size_t openmp_count() {
#ifdef _OPENMP
    return static_cast<std::size_t>(omp_get_max_threads());
#else
    return 1;
#endif
  }
  static void set([[maybe_unused]] std::size_t count) {
#ifdef _OPENMP
    if (count > 0) omp_set_num_threads(static_cast<int>(std::min(count, kMostThreads)));
#endif
  }

  const std::size_t before_;
};

/// Calls body(begin, end) for ranges that cover 0 … count, on `threads` threads. `chunk` is the
/// size of the ranges that a thread takes at a time.
template <typename Body>
void run_ranges(std::size_t count, [[maybe_unused]] std::size_t chunk,
                [[maybe_unused]] std::size_t threads, const Body& body) {
#ifdef _OPENMP
  run_on_pool({.body = [](const void* context, std::size_t begin,
                          std::size_t end) { (*static_cast<const Body*>(context))(begin, end); },
               .context = &body,
               .count = count,
               .chunk = chunk},
              threads);
#else
  body(std::size_t{0}, count);
#endif
}

/// Calls body(begin, end) for ranges that cover 0 … count and begin at multiples of `step`, unless
/// a thread would then get none. Each range must write memory that no other range writes; then the
/// result does not depend on the number of threads. `grain` is the smallest work of one thread:
/// smaller counts stay on the caller's thread. The first exception is rethrown at the end.
template <typename Body>
void parallel_ranges(std::size_t count, std::size_t grain, std::size_t step, const Body& body) {
  const std::size_t threads = count >= 2 * grain ? std::min(thread_count(), count / grain) : 1;
  if (threads == 1) return body(std::size_t{0}, count);
  if (count < step * threads) step = 1;
  const std::size_t steps = (count + step - 1) / step;
  // With several ranges in a share, other threads can help one that has lost its core.
  constexpr std::size_t kRangesOfShare = 4;
  const std::size_t chunk =
      std::max(kRangesOfShare * grain / step, steps / threads / kRangesOfShare);
  run_ranges(steps, 1 + chunk, threads, [&](std::size_t begin, std::size_t end) {
    body(begin * step, std::min(end * step, count));
  });
}

/// Calls body(i) for each i < `count`, like parallel_ranges().
template <typename Body>
void parallel_for(std::size_t count, std::size_t grain, const Body& body) {
  parallel_ranges(count, grain, 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) body(i);
  });
}

/// Calls job(i) for each i < `count`, each on one thread, which also runs the loops of the job. The
/// first exception is rethrown when all jobs are done.
template <typename Job>
void parallel_jobs(std::size_t count, const Job& job) {
  run_ranges(count, 1, std::min(thread_count(), count), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) job(i);
  });
}

/// Returns the smallest number of rows of `cols` values for one thread: about two microseconds,
/// twice the time in which a spinning thread joins. Each row has an overhead of some values.
inline std::size_t row_grain(std::size_t cols) {
  return 1 + 8192 / (cols + 64);
}

}  // namespace base
}  // namespace addnorm
