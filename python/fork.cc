#include "fork.h"

#include <omp.h>
#include <pthread.h>

namespace addnorm::python {
namespace {

bool is_forked = false;

}  // namespace

void watch_forks() {
  ::pthread_atfork(nullptr, nullptr, [] {
    is_forked = true;
    omp_set_num_threads(1);  // of this thread, the only one that has come along
  });
}

std::size_t threads_here(std::size_t asked) {
  return is_forked ? 1 : asked;
}

}  // namespace addnorm::python
