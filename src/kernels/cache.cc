#include "kernels/cache.h"

#include <algorithm>
#include <numeric>

#ifdef __linux__
#include <fstream>
#include <string>
#endif

namespace addnorm {
namespace {

/// Of the cores around this one. Linux tells it here; what the C library says is, on some machines,
/// the sum over all of them.
std::size_t last_level_cache() {
  std::size_t largest = 0;
#ifdef __linux__
  for (const char* level : {"2", "3", "4"}) {
    std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::string(level) + "/size");
    std::size_t kibibytes = 0;  // as in "32768K"
    if (file >> kibibytes) largest = std::max(largest, kibibytes << 10);
  }
#endif
  constexpr std::size_t kUsual = std::size_t{32} << 20;
  return largest > 0 ? largest : kUsual;
}

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

bool exceeds_cache(std::size_t bytes) {
  static const std::size_t last_level = last_level_cache();
  return bytes >= last_level;
}

}  // namespace addnorm
