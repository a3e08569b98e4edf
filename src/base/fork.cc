#include "base/fork.h"

#ifdef _OPENMP
#include <omp.h>
#include <pthread.h>
#endif

namespace addnorm {
namespace {

bool forked = false;

#ifdef _OPENMP
[[maybe_unused]] const int watching = ::pthread_atfork(nullptr, nullptr, [] {
  forked = true;
  omp_set_num_threads(1);  // for oneDNN as well, on the one thread that has come along
});
#endif

}  // namespace

bool is_forked() {
  return forked;
}

}  // namespace addnorm
