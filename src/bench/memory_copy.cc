#include "bench/memory_copy.h"

#include <omp.h>

#include <algorithm>
#include <cstring>

#include "base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/memory_copy.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace addnorm::bench {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Copies with non-temporal stores, two lines at a time: with one line a processor is up to 5 %
/// slower.
void stream(const std::byte* from, std::byte* to, std::size_t bytes) {
  const hn::ScalableTag<std::uint8_t> d;
  constexpr std::size_t kTurn = 128;
  std::size_t done = 0;
  for (; done + kTurn <= bytes; done += kTurn) {
    for (std::size_t i = done; i < done + kTurn; i += hn::Lanes(d)) {
      hn::Stream(hn::Load(d, reinterpret_cast<const std::uint8_t*>(from + i)), d,
                 reinterpret_cast<std::uint8_t*>(to + i));
    }
  }
  hwy::FlushStream();
  std::memcpy(to + done, from + done, bytes - done);
}

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace addnorm::bench {
namespace {

HWY_EXPORT(stream);

/// The smallest work of one thread.
constexpr std::size_t kGrain = 32 << 10;
constexpr std::size_t kLine = 64;

}  // namespace

void memory_copy(const std::byte* from, std::byte* to, std::size_t bytes, Stores stores) {
  const auto threads = static_cast<std::size_t>(omp_get_max_threads());
  const std::size_t parts = std::clamp<std::size_t>(bytes / kGrain, 1, threads);
  const std::size_t part = (bytes / parts / kLine + 1) * kLine;
  const auto past_cache = HWY_DYNAMIC_DISPATCH(stream);
  parallel_for(parts, 1, [&](std::size_t i) {
    const std::size_t begin = std::min(i * part, bytes);
    const std::size_t size = std::min(part, bytes - begin);
    if (stores == Stores::kNonTemporal) {
      past_cache(from + begin, to + begin, size);
    } else {
      std::memcpy(to + begin, from + begin, size);
    }
  });
}

}  // namespace addnorm::bench
#endif  // HWY_ONCE
