#include "kernels/machine.h"

#include <algorithm>
#include <optional>

#include "kernels/instruction_set.h"

#ifdef __linux__
#include <fstream>
#include <string>
#include <thread>
#endif

namespace addnorm::kernels {
namespace {

constexpr std::size_t operator""_KB(unsigned long long n) {
  return n << 10;
}
constexpr std::size_t operator""_MB(unsigned long long n) {
  return n << 20;
}

constexpr Machine kKnown[] = {
    {"zen3", "avx2", 32_KB, 512_KB, 32_MB, 8},
    {"zen4", "avx512", 32_KB, 1_MB, 32_MB, 8},
    {"zen5", "avx512", 48_KB, 1_MB, 32_MB, 8},
    {"sapphire-rapids", "avx512", 48_KB, 2_MB, 105_MB, 56},
    {"neoverse-v1", "neon", 64_KB, 1_MB, 32_MB, 64},
};

/// Returns a cache's size. `index` is the number in Linux's /sys: two first-level caches, for data
/// and instructions, then one cache of each level. On some machines the C library's size of the
/// last level is the sum over all cores. 0: unknown.
std::size_t cache_size([[maybe_unused]] char index) {
  std::size_t kibibytes = 0;  // as in "32768K"
#ifdef __linux__
  using namespace std::string_literals;
  std::ifstream("/sys/devices/system/cpu/cpu0/cache/index"s + index + "/size") >> kibibytes;
#endif
  return kibibytes << 10;
}

std::size_t count_cores() {
#ifdef __linux__
  return std::max(1U, std::thread::hardware_concurrency());
#else
  return 1;
#endif
}

Machine detect() {
  const auto or_usual = [](std::size_t size, std::size_t usual) { return size > 0 ? size : usual; };
  return {
      .l1 = or_usual(cache_size('0'), 32_KB),
      .l2 = or_usual(cache_size('2'), 1_MB),
      .last_level = or_usual(std::max({cache_size('2'), cache_size('3'), cache_size('4')}), 32_MB),
      .cores = count_cores()};
}

std::optional<Machine> injected;

}  // namespace

Machine machine() {
  if (injected) return *injected;
  static const Machine detected = detect();
  Machine now = detected;
  now.instruction_set = instruction_set();
  return now;
}

void use_machine(const Machine& machine) {
  injected = machine;
}
void use_this_machine() {
  injected.reset();
}

std::span<const Machine> known_machines() {
  return kKnown;
}

}  // namespace addnorm::kernels
