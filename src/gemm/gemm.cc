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

/// c = beta·c + bias, where 0 also clears NaN.
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

/// float and double.
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

void multiply(const Gemm<double>& g) {
  multiply_by_eigen(g);
}

void multiply(const Gemm<float>& g) {
#if defined(ADDNORM_ONEDNN)
  multiply_by_onednn(g);
#elif defined(__wasm_simd128__)
  multiply_in_tiles(g);
#else
  multiply_by_eigen(g);
#endif
}

/// 16-bit factors, through copies in float32 that every thread keeps the memory of.
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
  if (has_bfloat16_products()) return multiply_by_onednn(g);
#endif
  multiply_widened(g);
}

}  // namespace

template <typename In, typename Out>
void gemm(const Gemm<In, Out>& args) {
  check(args);
  if (args.m() == 0 || args.n() == 0) return;
  if (args.k() == 0 || args.alpha == 0) return start(args);
  const ThreadCount threads(is_forked() ? 1 : 0);  // oneDNN and Eigen take OpenMP's
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
