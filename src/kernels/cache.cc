#include "kernels/cache.h"

#include <algorithm>
#include <numeric>

#ifdef __linux__
#include <fstream>
#include <string>
#endif

namespace addnorm {
namespace {

/// Of a cache of the first core, in Linux's order: its first data and instruction caches, then one
/// of each level above. What the C library says of the last is, on some machines, the sum over all
/// cores. 0 where nothing is known.
std::size_t cache_size([[maybe_unused]] char index) {
  std::size_t kibibytes = 0;  // as in "32768K"
#ifdef __linux__
  using namespace std::string_literals;
  std::ifstream("/sys/devices/system/cpu/cpu0/cache/index"s + index + "/size") >> kibibytes;
#endif
  return kibibytes << 10;
}

std::size_t last_level_cache() {
  constexpr std::size_t kUsual = std::size_t{32} << 20;
  const std::size_t largest = std::max({cache_size('2'), cache_size('3'), cache_size('4')});
  return largest > 0 ? largest : kUsual;
}

std::size_t first_level_cache() {
  constexpr std::size_t kUsual = std::size_t{32} << 10;
  const std::size_t size = cache_size('0');
  return size > 0 ? size : kUsual;
}

// 0: this machine's
std::size_t first_cache_in_use = 0;
std::size_t last_cache_in_use = 0;

}  // namespace

std::size_t place_in_page(std::initializer_list<const void*> inputs,
                          std::initializer_list<const void*> outputs, std::size_t row_bytes) {
  constexpr std::size_t kLine = 64;
  const std::size_t period = std::gcd(kPage, row_bytes);  // rows that follow are as far apart
  const auto up = [&](std::uintptr_t from, std::uintptr_t to) {
    return (to - from - 1) % period + 1;  // to the next one there is, where it is the same
  };
  std::size_t best = 0, farthest = 0;
  for (std::size_t place = 0; place < period; place += kLine) {
    std::size_t distance = period;
    for (const void* input : inputs) {
      const auto at = reinterpret_cast<std::uintptr_t>(input);
      if (at != 0) distance = std::min(distance, up(at, place));
    }
    for (const void* output : outputs) {
      const auto at = reinterpret_cast<std::uintptr_t>(output);
      if (at != 0) distance = std::min(distance, up(place, at));
    }
    if (distance > farthest) {
      farthest = distance;
      best = place;
    }
  }
  return best;
}

std::size_t first_cache() {
  static const std::size_t first_level = first_level_cache();
  return first_cache_in_use > 0 ? first_cache_in_use : first_level;
}

void use_first_cache(std::size_t bytes) {
  first_cache_in_use = bytes;
}

bool fills_last_cache(std::size_t bytes, double share) {
  static const std::size_t last_level = last_level_cache();
  const std::size_t last_cache = last_cache_in_use > 0 ? last_cache_in_use : last_level;
  return static_cast<double>(bytes) >= share * static_cast<double>(last_cache);
}

void use_last_cache(std::size_t bytes) {
  last_cache_in_use = bytes;
}

}  // namespace addnorm
