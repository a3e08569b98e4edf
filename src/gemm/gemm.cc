#include "gemm/gemm.h"

#include <Eigen/Core>

#include "addnorm/matrix.h"
#include "base/parallel.h"
#include "base/require.h"
#include "gemm/onednn_matmul.h"
#include "gemm/tiled_matmul.h"
#include "kernels/convert.h"

namespace addnorm::gemm {
namespace {

template <typename In, typename Out>
void check(const Gemm<In, Out>& g) {
  const std::size_t k_of_b = g.transpose_b == Transpose::kYes ? g.b.cols : g.b.rows;
  require(g.k() == k_of_b && g.c.rows == g.m() && g.c.cols == g.n(),
          "gemm: {} × {} times {} × {} does not give {} × {}", g.m(), g.k(), k_of_b, g.n(),
          g.c.rows, g.c.cols);
  require(g.bias.empty() || g.bias.size() == g.n(),
          "gemm: the bias has {} values, must have {}, one for each column", g.bias.size(), g.n());
  require(g.bias.empty() || g.alpha == 1, "gemm: with a bias alpha must be 1, is {}", g.alpha);
}

/// c = beta·c + bias, where beta = 0 also clears NaN.
template <typename In, typename Out>
void start(const Gemm<In, Out>& g) {
  for (std::size_t r = 0; r < g.c.rows; ++r) {
    for (std::size_t i = 0; i < g.c.cols; ++i) {
      Arithmetic<Out> value = g.bias.empty() ? Arithmetic<Out>{0} : g.bias[i];
      if (g.beta != 0) value += g.beta * static_cast<Arithmetic<Out>>(g.c(r, i));
      g.c(r, i) = static_cast<Out>(value);
    }
  }
}

/// Multiplies float or double.
template <typename T>
void multiply_by_eigen(const Gemm<T>& g) {
  using Stored = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Strided = Eigen::OuterStride<>;
  auto map = [](MatrixView<const T> v) {
    return Eigen::Map<const Stored, 0, Strided>(v.data, static_cast<Eigen::Index>(v.rows),
                                                static_cast<Eigen::Index>(v.cols),
                                                Strided(static_cast<Eigen::Index>(v.stride)));
  };
  const auto a = map(g.a);
  const auto b = map(g.b);
  Eigen::Map<Stored, 0, Strided> c(g.c.data, static_cast<Eigen::Index>(g.c.rows),
                                   static_cast<Eigen::Index>(g.c.cols),
                                   Strided(static_cast<Eigen::Index>(g.c.stride)));
  start(g);
  const bool ta = g.transpose_a == Transpose::kYes;
  const bool tb = g.transpose_b == Transpose::kYes;
  if (ta && tb) {
    c.noalias() += g.alpha * a.transpose() * b.transpose();
  } else if (ta) {
    c.noalias() += g.alpha * a.transpose() * b;
  } else if (tb) {
    c.noalias() += g.alpha * a * b.transpose();
  } else {
    c.noalias() += g.alpha * a * b;
  }
}

/// The tiles of c that threads compute: rows × cols of them.
struct Grid {
  std::size_t rows, cols;
};

/// Returns a grid with a tile for each useful thread. The tiles have the shortest edges, because a
/// thread reads parts of a and b in proportion to them.
template <typename In, typename Out>
Grid grid_of(const Gemm<In, Out>& g) {
  constexpr double kGrain = 1 << 17;  // products and sums: some microseconds
  const double work =
      static_cast<double>(g.m()) * static_cast<double>(g.n()) * static_cast<double>(g.k());
  if (work < 2 * kGrain) return {1, 1};
  const auto threads =
      static_cast<std::size_t>(std::min(static_cast<double>(thread_count()), work / kGrain));
  Grid best{1, 1};
  for (std::size_t rows = 1; rows <= std::min(threads, g.m()); ++rows) {
    const std::size_t cols = std::min(threads / rows, g.n());
    const auto edge = [&](const Grid& grid) { return g.m() / grid.rows + g.n() / grid.cols; };
    if (rows * cols < best.rows * best.cols) continue;
    if (rows * cols > best.rows * best.cols || edge({rows, cols}) <= edge(best))
      best = {rows, cols};
  }
  return best;
}

/// Returns the part of a product that computes a tile of c.
template <typename In, typename Out>
Gemm<In, Out> tile_of(const Gemm<In, Out>& g, const Grid& grid, std::size_t tile) {
  // Tiles begin at multiples of a cache line of c.
  constexpr std::size_t kLine = 64 / sizeof(Out);
  const auto bound = [](std::size_t size, std::size_t parts, std::size_t part, std::size_t step) {
    return part == parts ? size : size * part / parts / step * step;
  };
  const std::size_t r = tile / grid.cols, c = tile % grid.cols;
  const std::size_t row = bound(g.m(), grid.rows, r, 1);
  const std::size_t rows = bound(g.m(), grid.rows, r + 1, 1) - row;
  const std::size_t col = bound(g.n(), grid.cols, c, kLine);
  const std::size_t cols = bound(g.n(), grid.cols, c + 1, kLine) - col;
  Gemm<In, Out> part = g;
  part.a = g.transpose_a == Transpose::kYes ? g.a.block(0, row, g.k(), rows)
                                            : g.a.block(row, 0, rows, g.k());
  part.b = g.transpose_b == Transpose::kYes ? g.b.block(col, 0, cols, g.k())
                                            : g.b.block(0, col, g.k(), cols);
  part.c = g.c.block(row, col, rows, cols);
  if (!g.bias.empty()) part.bias = g.bias.subspan(col, cols);
  return part;
}

/// Calls backend(part) for tiles of c that cover it, each on one thread: the OpenMP loops of
/// oneDNN and Eigen do not divide it further.
template <typename In, typename Out, typename Backend>
void multiply_tiles(const Gemm<In, Out>& g, const Backend& backend) {
  const Grid grid = grid_of(g);
  const auto multiply_tile = [&](std::size_t tile) {
    const ThreadCount one(1);
    const Gemm<In, Out> part = tile_of(g, grid, tile);
    if (part.c.size() > 0) backend(part);
  };
  const std::size_t n_tiles = grid.rows * grid.cols;
  if (n_tiles == 1) return multiply_tile(0);
  parallel_jobs(n_tiles, multiply_tile);
}

void multiply(const Gemm<double>& g) {
  multiply_tiles(g, multiply_by_eigen<double>);
}

void multiply(const Gemm<float>& g) {
#if defined(ADDNORM_ONEDNN)
  multiply_tiles(g, multiply_by_onednn<float, float>);
#elif defined(__wasm_simd128__)
  multiply_in_tiles(g);
#else
  multiply_tiles(g, multiply_by_eigen<float>);
#endif
}

/// Multiplies 16-bit factors through float32 copies in each thread's own memory.
template <typename Out>
void multiply_widened(const Gemm<BFloat16, Out>& g) {
  static thread_local Matrix<float> a, b, c;
  a.resize(g.a.rows, g.a.cols);
  b.resize(g.b.rows, g.b.cols);
  kernels::convert<BFloat16, float>(g.a, a);
  kernels::convert<BFloat16, float>(g.b, b);
  Gemm<float> wide{a, g.transpose_a, b, g.transpose_b, {}, g.bias, g.alpha, g.beta};
  if constexpr (kIsArithmetic<Out>) {
    wide.c = g.c;
    multiply(wide);
  } else {
    c.resize(g.c.rows, g.c.cols);
    if (g.beta != 0) kernels::convert<BFloat16, float>(g.c, c);
    wide.c = c;
    multiply(wide);
    kernels::convert<float, BFloat16>(c.view(), g.c);
  }
}

template <typename Out>
void multiply(const Gemm<BFloat16, Out>& g) {
#ifdef ADDNORM_ONEDNN
  if (has_bfloat16_products()) return multiply_tiles(g, multiply_by_onednn<BFloat16, Out>);
#endif
  multiply_widened(g);
}

}  // namespace

template <typename In, typename Out>
void gemm(const Gemm<In, Out>& args) {
  check(args);
  if (args.m() == 0 || args.n() == 0) return;
  if (args.k() == 0 || args.alpha == 0) return start(args);
  multiply(args);
}

bool has_bfloat16_products() {
#ifdef ADDNORM_ONEDNN
  return onednn_has_bfloat16();
#else
  return false;
#endif
}

template void gemm(const Gemm<float>&);
template void gemm(const Gemm<double>&);
template void gemm(const Gemm<BFloat16>&);
template void gemm(const Gemm<BFloat16, float>&);

}  // namespace addnorm::gemm
