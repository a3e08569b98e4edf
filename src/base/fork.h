#pragma once

namespace addnorm {
inline namespace base {

/// Returns whether this process was forked from another that had this library. A forked process has
/// only the thread that forked, and a thread that is gone may hold the pool's lock: all work is then
/// done on one thread.
bool is_forked();

}  // namespace base
}  // namespace addnorm
