#pragma once

#include <cstddef>

/// A forked process, such as a worker of multiprocessing: OpenMP's threads do not live on in it,
/// and its first parallel region would wait for them forever. So it computes on one thread.
namespace addnorm::python {

/// Watches from now on for forks of this process.
void watch_forks();

/// As many threads as were asked for, or 1 in a forked process.
std::size_t threads_here(std::size_t asked);

}  // namespace addnorm::python
