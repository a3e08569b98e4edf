#include "base/fork.h"

#ifdef _OPENMP
#include <pthread.h>
#endif

namespace addnorm {
inline namespace base {
namespace {

bool forked = false;

#ifdef _OPENMP
[[maybe_unused]] const int watching = ::pthread_atfork(nullptr, nullptr, [] { forked = true; });
#endif

}  // namespace

bool is_forked() {
  return forked;
}

}  // namespace base
}  // namespace addnorm
