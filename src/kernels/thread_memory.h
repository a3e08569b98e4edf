#pragma once

#include <cstddef>

namespace addnorm {

/// Memory of the calling thread, of at least so many bytes and aligned to a page, for what a kernel
/// keeps while it runs: threads may have small stacks. What it holds is undefined. It stays until
/// the thread calls this again or ends; it is allocated once, and anew only to grow. Throws
/// std::bad_alloc.
std::byte* thread_memory(std::size_t bytes);

}  // namespace addnorm
