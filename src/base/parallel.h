#pragma once

#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <climits>
#include <cstddef>
#include <exception>

#include "base/fork.h"

namespace addnorm {
inline namespace base {

/// How many threads a region that this thread opens has.
inline std::size_t thread_count() {
#ifdef _OPENMP
  return is_forked() ? 1 : static_cast<std::size_t>(omp_get_max_threads());
#else
  return 1;
#endif
}

/// As long as it lives, what its thread does in parallel takes `count` threads; 0: as many as
/// before.
class ThreadCount {
 public:
  explicit ThreadCount(std::size_t count) : before_(count > 0 ? thread_count() : 0) { set(count); }
  ~ThreadCount() { set(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  static void set([[maybe_unused]] std::size_t count) {
#ifdef _OPENMP
    if (is_forked()) count = std::min<std::size_t>(count, 1);
    if (count > 0) omp_set_num_threads(static_cast<int>(std::min<std::size_t>(count, INT_MAX)));
#endif
  }

  const std::size_t before_;
};

/// Keeps the first exception of several threads, because none may leave an OpenMP region.
class FirstException {
 public:
  template <typename Body>
  void guard(const Body& body) {
#ifdef __cpp_exceptions
    try {
      body();
    } catch (...) {
#pragma omp critical(addnorm_first_exception)
      if (!first_) first_ = std::current_exception();
    }
#else
    body();
#endif
  }
  void rethrow() const {
#ifdef __cpp_exceptions
    if (first_) std::rethrow_exception(first_);
#endif
  }

 private:
  std::exception_ptr first_;
};

/// Calls body(i) for each i below `count`, on all threads. Each i must write what no other i
/// writes; then the result does not depend on the number of threads. `grain` is how many calls are
/// worth one thread: smaller counts stay on the caller's thread. The first exception is thrown
/// again at the end.
template <typename Body>
void parallel_for(std::size_t count, std::size_t grain, const Body& body) {
  if (count < 2 * grain ||
      thread_count() == 1) {  // in no region, not even of one thread: inner ones would be nested
    for (std::size_t i = 0; i < count; ++i) body(i);
    return;
  }
  FirstException exception;
#pragma omp parallel for schedule(static)
  for (std::size_t i = 0; i < count; ++i) exception.guard([&] { body(i); });
  exception.rethrow();
}

/// Calls body(begin, end) for parts of 0 … count, one for each thread, that begin at multiples of
/// `step`, unless that would leave a thread without any. `grain` is as in parallel_for.
template <typename Body>
void parallel_ranges(std::size_t count, std::size_t grain, std::size_t step, const Body& body) {
  const std::size_t parts = count >= 2 * grain ? thread_count() : 1;
  if (parts == 1) return body(std::size_t{0}, count);
  if (count < step * parts) step = 1;
  const std::size_t steps = (count + step - 1) / step;
  parallel_for(parts, 1, [&](std::size_t part) {
    auto bound = [&](std::size_t p) { return p == parts ? count : steps * p / parts * step; };
    if (bound(part) < bound(part + 1)) body(bound(part), bound(part + 1));
  });
}

/// Calls job(i) for each i below `count`, as many at a time as there are threads; what a job does
/// in parallel itself runs on its one thread.
template <typename Job>
void parallel_jobs(std::size_t count, const Job& job) {
  if (thread_count() == 1) {
    for (std::size_t i = 0; i < count; ++i) job(i);
    return;
  }
  FirstException exception;
#pragma omp parallel for schedule(dynamic, 1)
  for (std::size_t i = 0; i < count; ++i) exception.guard([&] { job(i); });
  exception.rethrow();
}

/// Rows of `cols` values that are worth one thread: about two microseconds, twice what it takes to
/// wake one. A row costs as much as some more values.
inline std::size_t row_grain(std::size_t cols) {
  return 1 + 8192 / (cols + 64);
}

}  // namespace base
}  // namespace addnorm
