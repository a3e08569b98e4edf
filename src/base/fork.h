#pragma once

namespace addnorm {
inline namespace base {

/// Whether this process was forked from another that had this library. The threads of GNU's OpenMP
/// do not come along, and a parallel region would wait for them forever: all is then done on one
/// thread, with the same bits.
bool is_forked();

}  // namespace base
}  // namespace addnorm
