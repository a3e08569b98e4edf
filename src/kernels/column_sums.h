#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "base/parallel.h"
#include "kernels/row.h"

namespace addnorm {

/// sums[i] += Σ over rows of value(r, i); where `sums` is one number, Σ over the columns too. Rows
/// are added in blocks, in a fixed order, so that neither threads nor many rows cost accuracy.
template <typename T, typename Value>
void add_column_sums(std::size_t rows, std::size_t cols, std::span<T> sums, const Value& value) {
  constexpr std::size_t kWidth = 32;
  constexpr std::size_t kRows = 64;
  using Tile = std::array<T, kWidth>;
  auto tile_sums = [&](std::size_t first, std::size_t width) {
    Tile total{};
    for (std::size_t begin = 0; begin < rows; begin += kRows) {
      Tile block{};
      for (std::size_t r = begin; r < std::min(rows, begin + kRows); ++r) {
        for (std::size_t i = 0; i < width; ++i) block[i] += value(r, first + i);
      }
      for (std::size_t i = 0; i < width; ++i) total[i] += block[i];
    }
    return total;
  };
  const std::size_t tiles = (cols + kWidth - 1) / kWidth;
  auto width_of = [&](std::size_t tile) { return std::min(kWidth, cols - tile * kWidth); };
  if (sums.size() == cols) {
    parallel_for(tiles, row_grain(rows * kWidth), [&](std::size_t tile) {
      const Tile total = tile_sums(tile * kWidth, width_of(tile));
      for (std::size_t i = 0; i < width_of(tile); ++i) sums[tile * kWidth + i] += total[i];
    });
    return;
  }
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    const Tile total = tile_sums(tile * kWidth, width_of(tile));
    sums[0] += row::sum<T>(width_of(tile), [&](std::size_t i) { return total[i]; });
  }
}

}  // namespace addnorm
