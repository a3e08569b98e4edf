#include "kernels/cache.h"

#ifdef __linux__
#include <algorithm>
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

bool exceeds_cache(std::size_t bytes) {
  static const std::size_t last_level = last_level_cache();
  return bytes >= last_level;
}

}  // namespace addnorm
