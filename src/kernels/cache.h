#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "addnorm/view.h"

namespace addnorm {

/// Bytes of a core's first data cache. By it kernels choose among ways of reading rows from memory.
std::size_t first_cache();

/// From now on kernels choose as with a first cache of so many bytes; 0: as with this machine's.
/// Results do not change; for tests and comparisons, while no kernel runs.
void use_first_cache(std::size_t bytes);

/// Whether it is of 32 KB, as of many processors, and not of 48. Which ways are the faster goes
/// with it among those measured, a Zen 4 and a Zen 5.
inline bool first_cache_is_small() {
  return first_cache() < (std::size_t{48} << 10);
}

/// Whether what a kernel reads and writes, so many bytes, takes this share of the last-level cache
/// or more.
bool fills_last_cache(std::size_t bytes, double share = 1);

/// From now on kernels choose as with a last-level cache of so many bytes; 0: as with this
/// machine's. Results do not change; for tests and comparisons, while no kernel runs.
void use_last_cache(std::size_t bytes);

/// Where what a call reads comes from, and where what it writes goes (docs/kernels.md).
enum class Reach {
  kCaches,  ///< the caches hold all of it
  kFar,     ///< it comes from memory, or takes much of the last cache; what is written stays there
  kPast,    ///< it comes from memory, and what is written goes past the caches
};

template <typename T>
std::size_t bytes_of(const MatrixView<T>& matrix) {
  return matrix.size() * sizeof(T);
}

/// Whether every row begins a cache line, as stores past the caches need it.
template <typename T>
bool streamable(const MatrixView<T>& matrix) {
  constexpr std::size_t kLine = 64;
  return reinterpret_cast<std::uintptr_t>(matrix.data) % kLine == 0 &&
         matrix.stride * sizeof(T) % kLine == 0;
}

template <typename T, typename U>
bool same_place(const MatrixView<T>& a, const MatrixView<U>& b) {
  return !a.empty() && static_cast<const void*>(a.data) == static_cast<const void*>(b.data);
}

inline constexpr std::size_t kPage = 4096;

/// Where in a page a kernel's own rows of `row_bytes` should begin, which it reads and writes in
/// one loop with rows that it reads at `inputs` and writes at `outputs`; null ones do not count. On
/// many processors a load stays behind a store shortly before it whose address has the same lower
/// 12 bits, as if it read what that has written. So they begin at the line from which it is
/// farthest back to an input and on to an output.
std::size_t place_in_page(std::initializer_list<const void*> inputs,
                          std::initializer_list<const void*> outputs, std::size_t row_bytes);

/// Values of γ, of β or of their gradients for which a kernel has room of its own in such a place.
inline constexpr std::size_t kOwnParameters = 8192;

}  // namespace addnorm
