#include "base/fork.h"

#ifdef _OPENMP
#include <pthread.h>
#endif

namespace addnorm {
inline namespace base {
namespace {

bool forked = false;

#ifdef _OPENMP
// No function of OpenMP may be called here: clang's has locked itself until its own handler is
// called.
[[maybe_unused]] const int watching = ::pthread_atfork(nullptr, nullptr, [] { forked = true; });
#endif

}  // namespace

bool is_forked() {
  return forked;
}

}  // namespace base
}  // namespace addnorm
