#pragma once

#include <cstddef>

#include "kernels/placement.h"
#include "kernels/plan.h"

namespace addnorm::kernels {

/// A part of thread_memory(): kStagingBytes from a place within a page on.
inline constexpr std::size_t kThreadRegion = kStagingBytes + kPage;
inline constexpr std::size_t kThreadRegions = 6;
/// Bytes of thread_memory().
inline constexpr std::size_t kThreadMemory = kThreadRegions * kThreadRegion;

/// Memory of the calling thread for what a kernel keeps while it runs, since threads may have small
/// stacks; aligned to a page. What it holds is undefined after the call of another kernel. The
/// thread's first call allocates it, and it is freed when the thread ends. Throws std::bad_alloc.
std::byte* thread_memory();

/// Region `index` of it, from byte `place` of a page on.
template <typename T>
T* thread_region(std::size_t index, std::size_t place = 0) {
  return reinterpret_cast<T*>(thread_memory() + index * kThreadRegion + place);
}

}  // namespace addnorm::kernels
