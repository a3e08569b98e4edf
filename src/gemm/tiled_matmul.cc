#include "gemm/tiled_matmul.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace addnorm::gemm {
namespace {

using Vector = float __attribute__((vector_size(16)));

// The size of a tile of c: its eight sums, two vectors of b and a value of a fit in 16 registers.
constexpr std::size_t kRows = 4;
constexpr std::size_t kVectors = 2;
constexpr std::size_t kColumns = 4 * kVectors;
struct Sums {
  Vector of[kRows][kVectors];
};

/// The strides of a factor, along rows of op(a) or columns of op(b), and along k.
struct Steps {
  std::size_t along;   ///< from one row of op(a), or column of op(b), to the next
  std::size_t across;  ///< from one k to the next
};

/// kColumns columns of op(b); the values for k = l begin at line + l·step.
struct Strip {
  const float* line;
  std::size_t step;
};

/// Returns a strip of op(b): the matrix itself if its layout fits, else a copy, with 0 after the
/// edge.
Strip strip_of(const Gemm<float>& g, const Steps& steps, std::size_t column) {
  const std::size_t columns = std::min(kColumns, g.n() - column);
  const float* in = g.b.data + column * steps.along;
  if (steps.along == 1 && columns == kColumns) return {in, steps.across};
  static thread_local std::vector<float> copy;
  copy.resize(std::max(copy.size(), g.k() * kColumns));
  float* out = copy.data();
  for (std::size_t l = 0; l < g.k(); ++l, in += steps.across, out += kColumns) {
    for (std::size_t i = 0; i < kColumns; ++i) out[i] = i < columns ? in[i * steps.along] : 0;
  }
  return {copy.data(), kColumns};
}

/// Beyond `rows` it repeats the last row; those sums are not stored.
Sums multiply_tile(const float* a, const Steps& steps, std::size_t rows, Strip b, std::size_t k) {
  std::size_t offset[kRows];
  for (std::size_t r = 0; r < kRows; ++r) offset[r] = std::min(r, rows - 1) * steps.along;
  Sums sums{};
  for (std::size_t l = 0; l < k; ++l, a += steps.across, b.line += b.step) {
    Vector line[kVectors];
    std::memcpy(line, b.line, sizeof line);
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::size_t v = 0; v < kVectors; ++v) sums.of[r][v] += a[offset[r]] * line[v];
    }
  }
  return sums;
}

/// Copies the first columns of a row, or a whole tile's row, without a function call.
void copy_row(void* to, const void* from, std::size_t columns) {
  if (columns == kColumns) {
    std::memcpy(to, from, kColumns * sizeof(float));
  } else {
    std::memcpy(to, from, columns * sizeof(float));
  }
}

/// c = alpha·sums + beta·c + bias, where beta = 0 also clears NaN.
void finish_tile(const Gemm<float>& g, const Sums& sums, std::size_t row, std::size_t column) {
  const std::size_t rows = std::min(kRows, g.m() - row);
  const std::size_t columns = std::min(kColumns, g.n() - column);
  Vector bias[kVectors]{};
  if (!g.bias.empty()) copy_row(bias, &g.bias[column], columns);
  for (std::size_t r = 0; r < rows; ++r) {
    float* c = &g.c(row + r, column);
    Vector values[kVectors]{};
    if (g.beta != 0) copy_row(values, c, columns);
    for (std::size_t v = 0; v < kVectors; ++v) {
      values[v] = g.alpha * sums.of[r][v] + g.beta * values[v] + bias[v];
    }
    copy_row(c, values, columns);
  }
}

}  // namespace

void multiply_in_tiles(const Gemm<float>& g) {
  const bool ta = g.transpose_a == Transpose::kYes, tb = g.transpose_b == Transpose::kYes;
  const Steps of_a = ta ? Steps{1, g.a.stride} : Steps{g.a.stride, 1};
  const Steps of_b = tb ? Steps{g.b.stride, 1} : Steps{1, g.b.stride};
  for (std::size_t column = 0; column < g.n(); column += kColumns) {
    const Strip b = strip_of(g, of_b, column);
    for (std::size_t row = 0; row < g.m(); row += kRows) {
      const float* a = g.a.data + row * of_a.along;
      finish_tile(g, multiply_tile(a, of_a, std::min(kRows, g.m() - row), b, g.k()), row, column);
    }
  }
}

}  // namespace addnorm::gemm
