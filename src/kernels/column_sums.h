#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "base/parallel.h"

namespace addnorm::kernels {

inline constexpr std::size_t kTileWidth = 32;

/// Returns Σ over rows begin … end of `width` columns, beginning with `first`. Up to 64 rows are
/// added one after the other; more rows are split in halves. So the error grows with the logarithm
/// of their number.
template <typename T, typename Value>
std::array<T, kTileWidth> tile_sums(std::size_t begin, std::size_t end, std::size_t first,
                                    std::size_t width, const Value& value) {
  constexpr std::size_t kRows = 64;
  std::array<T, kTileWidth> total{};
  if (end - begin <= kRows) {
    for (std::size_t r = begin; r < end; ++r) {
      for (std::size_t i = 0; i < width; ++i) total[i] += value(r, first + i);
    }
    return total;
  }
  const std::size_t middle = begin + ((end - begin) / 2 + kRows - 1) / kRows * kRows;
  total = tile_sums<T>(begin, middle, first, width, value);
  const auto rest = tile_sums<T>(middle, end, first, width, value);
  for (std::size_t i = 0; i < width; ++i) total[i] += rest[i];
  return total;
}

/// Adds the values of a tile as a tree.
template <typename T>
T tree_sum(std::array<T, kTileWidth> values) {
  for (std::size_t half = kTileWidth / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) values[i] += values[i + half];
  }
  return values[0];
}

/// sums[i] += Σ over rows of value(r, i). If `sums` is one number, it also sums over the columns.
/// The order is fixed for any number of threads.
template <typename T, typename Value>
void add_column_sums(std::size_t rows, std::size_t cols, std::span<T> sums, const Value& value) {
  const std::size_t tiles = (cols + kTileWidth - 1) / kTileWidth;
  auto width_of = [&](std::size_t tile) { return std::min(kTileWidth, cols - tile * kTileWidth); };
  if (sums.size() == cols) {
    parallel_for(tiles, row_grain(rows * kTileWidth), [&](std::size_t tile) {
      const auto total = tile_sums<T>(0, rows, tile * kTileWidth, width_of(tile), value);
      for (std::size_t i = 0; i < width_of(tile); ++i) sums[tile * kTileWidth + i] += total[i];
    });
    return;
  }
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    sums[0] += tree_sum(tile_sums<T>(0, rows, tile * kTileWidth, width_of(tile), value));
  }
}

}  // namespace addnorm::kernels
