#pragma once

#include <array>
#include <cstdint>

namespace addnorm {
inline namespace base {

/// Philox4x32-10: four random words as a pure function of (key, counter). So any element of a
/// random sequence can be computed on its own, in any order (Salmon et al., SC 2011, section 3.3).
/// `stream` is the upper half of the paper's 128-bit counter.
constexpr std::array<std::uint32_t, 4> philox(std::uint64_t key, std::uint64_t counter,
                                              std::uint64_t stream = 0) {
  auto low = [](std::uint64_t v) { return static_cast<std::uint32_t>(v); };
  auto high = [](std::uint64_t v) { return static_cast<std::uint32_t>(v >> 32); };
  std::array<std::uint32_t, 4> c{low(counter), high(counter), low(stream), high(stream)};
  std::uint32_t k0 = low(key);
  std::uint32_t k1 = high(key);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c[2];
    c = {high(p1) ^ c[1] ^ k0, low(p1), high(p0) ^ c[3] ^ k1, low(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

}  // namespace base
}  // namespace addnorm
