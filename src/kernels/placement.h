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

/// Whether every row begins a cache line, as non-temporal stores need it.
template <typename T>
bool streamable(const MatrixView<T>& matrix) {
  return reinterpret_cast<std::uintptr_t>(matrix.data) % kLine == 0 &&
         matrix.stride * sizeof(T) % kLine == 0;
}

template <typename T, typename U>
bool same_place(const MatrixView<T>& a, const MatrixView<U>& b) {
  return !a.empty() && static_cast<const void*>(a.data) == static_cast<const void*>(b.data);
}

/// Where in a page a kernel's own rows of `row_bytes` should begin, which it reads and writes in
/// one loop with rows that it reads at `inputs` and writes at `outputs`; null ones do not count. On
/// many processors a load waits for an earlier store whose address has the same lower 12 bits, as
/// if it read what that has written (4K aliasing). So they begin at the line from which it is
/// farthest back to an input and on to an output.
std::size_t place_in_page(std::initializer_list<const void*> inputs,
                          std::initializer_list<const void*> outputs, std::size_t row_bytes);

}  // namespace addnorm::kernels
