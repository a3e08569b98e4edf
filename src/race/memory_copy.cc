#include "race/memory_copy.h"

#include <omp.h>

#include <algorithm>
#include <cstring>

#include "base/parallel.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace addnorm {
namespace {

constexpr std::size_t kLine = 64;
/// Less than this is not worth another thread.
constexpr std::size_t kGrain = 32 << 10;

void stream(const std::byte* from, std::byte* to, std::size_t bytes) {
  std::size_t done = 0;
#ifdef __SSE2__
  for (; done + kLine <= bytes; done += kLine) {
    for (std::size_t i = done; i < done + kLine; i += sizeof(__m128i)) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                       _mm_load_si128(reinterpret_cast<const __m128i*>(from + i)));
    }
  }
  _mm_sfence();
#endif
  std::memcpy(to + done, from + done, bytes - done);
}

}  // namespace

void memory_copy(const std::byte* from, std::byte* to, std::size_t bytes, Stores stores) {
  const auto threads = static_cast<std::size_t>(omp_get_max_threads());
  const std::size_t parts = std::clamp<std::size_t>(bytes / kGrain, 1, threads);
  const std::size_t part = (bytes / parts / kLine + 1) * kLine;
  parallel_for(parts, 1, [&](std::size_t i) {
    const std::size_t begin = std::min(i * part, bytes);
    const std::size_t size = std::min(part, bytes - begin);
    if (stores == Stores::kNonTemporal) {
      stream(from + begin, to + begin, size);
    } else {
      std::memcpy(to + begin, from + begin, size);
    }
  });
}

}  // namespace addnorm
