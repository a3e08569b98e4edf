#pragma once

#include <cstddef>
#include <exception>

namespace addnorm {

/// Calls body(i) for each i below `count`, on all threads. Each i must write what no other i
/// writes; then the result does not depend on the number of threads. `grain` is how many calls are
/// worth one thread: smaller counts stay on the caller's thread.
template <typename Body>
void parallel_for(std::size_t count, std::size_t grain, const Body& body) {
#pragma omp parallel for schedule(static) if (count >= 2 * grain)
  for (std::size_t i = 0; i < count; ++i) body(i);
}

/// Calls job(i) for each i below `count`, as many at a time as there are threads; what a job does
/// in parallel itself runs on its one thread. The first exception of a job is thrown again at the
/// end.
template <typename Job>
void parallel_jobs(std::size_t count, const Job& job) {
  std::exception_ptr error;
#pragma omp parallel for schedule(dynamic, 1)
  for (std::size_t i = 0; i < count; ++i) {
    try {
      job(i);
    } catch (...) {
#pragma omp critical(addnorm_job_error)
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

/// Rows of `cols` values that are worth one thread in a kernel bound by memory.
inline std::size_t row_grain(std::size_t cols) {
  return 1 + 16384 / (cols + 1);
}

}  // namespace addnorm
