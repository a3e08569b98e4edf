#pragma once

#include <cstddef>

#include "kernels/aliasing.h"
#include "kernels/plan.h"

namespace addnorm::kernels {

/// The size of one part of thread_memory(): kStagingBytes after an offset within a page.
inline constexpr std::size_t kThreadRegion = kStagingBytes + kPage;
inline constexpr std::size_t kThreadRegions = 8;
/// The size of thread_memory() in bytes.
inline constexpr std::size_t kThreadMemory = kThreadRegions * kThreadRegion;

/// Returns the calling thread's memory for a kernel's temporary data, since threads may have small
/// stacks. It is aligned to a page. Its contents are undefined after the call of another kernel.
/// The thread's first call allocates it, and it is freed when the thread ends. Throws
/// std::bad_alloc.
std::byte* thread_memory();

/// Returns region `index` of thread_memory(), from its byte `place` on.
template <typename T>
T* thread_region(std::size_t index, std::size_t place = 0) {
  return reinterpret_cast<T*>(thread_memory() + index * kThreadRegion + place);
}

}  // namespace addnorm::kernels
