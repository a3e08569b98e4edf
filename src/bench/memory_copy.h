#pragma once

#include <cstddef>

namespace addnorm::bench {

enum class Stores { kOrdinary, kNonTemporal };

/// Copies on all threads. Non-temporal stores go past the caches, where the processor has them;
/// they need `to` and `from` aligned to 64 bytes. The two parts must not overlap.
void memory_copy(const std::byte* from, std::byte* to, std::size_t bytes, Stores stores);

}  // namespace addnorm::bench
