#pragma once

#include <cstddef>

namespace addnorm::bench {

enum class Stores { kOrdinary, kNonTemporal };

/// Copies on all threads. Non-temporal stores, on processors that have them, bypass the caches;
/// they need `to` and `from` aligned to 64 bytes. The memory must not overlap.
void memory_copy(const std::byte* from, std::byte* to, std::size_t bytes, Stores stores);

}  // namespace addnorm::bench
