#pragma once

namespace addnorm {
inline namespace base {

/// Returns whether this process was forked from another one that had this library. A forked process
/// has only the thread that forked, and a missing thread may hold the pool's lock. So all work runs
/// on one thread.
bool is_forked();

}  // namespace base
}  // namespace addnorm
