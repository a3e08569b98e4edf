#pragma once

#include <cstddef>

namespace addnorm {

/// Bytes of thread_memory(): what the largest kernel needs, add_norm_forward of float64.
inline constexpr std::size_t kThreadMemory = std::size_t{272} << 10;

/// Memory of the calling thread for what a kernel keeps while it runs, since threads may have small
/// stacks; aligned to a page. What it holds is undefined after the call of another kernel. The
/// thread's first call allocates it, and it is freed when the thread ends. Throws std::bad_alloc.
std::byte* thread_memory();

}  // namespace addnorm
