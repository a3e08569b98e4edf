#pragma once

/// Sums outside the norms, in plain code. They run over 16 lanes and one fixed tree, so their bits
/// depend on nothing but the values.

#include <algorithm>
#include <array>
#include <cstddef>

namespace addnorm::row {

inline constexpr std::size_t kLanes = 16;

template <typename T>
using Lanes = std::array<T, kLanes>;

template <typename T>
T tree_sum(Lanes<T> lanes) {
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

/// Calls block(begin, n) for the parts of 0 … n−1 that are summed on their own, so that the error
/// of a sum does not grow with the length of a wide row.
template <typename Block>
void for_each_block(std::size_t n, const Block& block) {
  constexpr std::size_t kBlock = 4096;
  for (std::size_t begin = 0; begin < n; begin += kBlock) {
    block(begin, std::min(kBlock, n - begin));
  }
}

/// Calls body(lane, i) for i = begin … begin + n − 1, lane = (i − begin) mod 16, so that a compiler
/// can vectorize it.
template <typename Body>
inline void for_each_lane(std::size_t begin, std::size_t n, const Body& body) {
  const std::size_t whole = n - n % kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) {
#ifdef __clang__  // which otherwise unrolls this first, and then finds no vectors in it
#pragma clang loop vectorize(enable) unroll(disable)
#endif
    for (std::size_t l = 0; l < kLanes; ++l) body(l, begin + i + l);
  }
  for (std::size_t i = whole; i < n; ++i) body(i - whole, begin + i);
}

/// Σ value(i) for i = 0 … n−1.
template <typename T, typename Value>
T sum(std::size_t n, const Value& value) {
  T total = 0;
  for_each_block(n, [&](std::size_t begin, std::size_t length) {
    Lanes<T> lanes{};
    for_each_lane(begin, length, [&](std::size_t l, std::size_t i) { lanes[l] += value(i); });
    total += tree_sum(lanes);
  });
  return total;
}

}  // namespace addnorm::row
