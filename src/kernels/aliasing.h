#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "addnorm/view.h"

namespace addnorm::kernels {

inline constexpr std::size_t kLine = 64;  ///< bytes of a cache line
inline constexpr std::size_t kPage = 4096;

template <typename T>
std::size_t bytes_of(const MatrixView<T>& matrix) {
  return matrix.size() * sizeof(T);
}

/// Whether every row begins a cache line, which non-temporal stores need.
template <typename T>
bool streamable(const MatrixView<T>& matrix) {
  return reinterpret_cast<std::uintptr_t>(matrix.data) % kLine == 0 &&
         matrix.stride * sizeof(T) % kLine == 0;
}

template <typename T, typename U>
bool same_place(const MatrixView<T>& a, const MatrixView<U>& b) {
  return !a.empty() && static_cast<const void*>(a.data) == static_cast<const void*>(b.data);
}

/// Returns the best offset in a page for a kernel's own rows of `row_bytes`. The kernel accesses
/// them in one loop with rows that it reads at `inputs` and writes at `outputs`; null pointers are
/// ignored. On many processors a load waits for an earlier store if the lower 12 bits of their
/// addresses are equal (4K aliasing). So the offset is that of the cache line with the largest
/// distance back to an input and forward to an output.
std::size_t place_in_page(std::initializer_list<const void*> inputs,
                          std::initializer_list<const void*> outputs, std::size_t row_bytes);

}  // namespace addnorm::kernels
