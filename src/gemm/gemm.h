#pragma once

#include <cstddef>
#include <span>

#include "addnorm/float16.h"
#include "addnorm/view.h"

namespace addnorm::gemm {

enum class Transpose { kNo, kYes };

/// c = alpha·op(a)·op(b) + beta·c + bias, row-major, op(m) = m or mᵀ. bias has one value for each
/// column and requires alpha = 1. With beta = 0, c is not read; with alpha = 0, neither are a and
/// b. c must not overlap a or b. BFloat16 factors are multiplied and added up in float32; c is
/// rounded once. On a processor without bfloat16 products, copies of the factors in float32 are
/// multiplied. Each thread computes a tile of c. Products use oneDNN's matmul if the build has it,
/// except in float64. Otherwise they use Eigen, or, for float32 in WebAssembly, loops of our own.
/// The bits are the same every time on one machine with one number of threads.
template <typename In, typename Out = In>
struct Gemm {
  MatrixView<const In> a;
  Transpose transpose_a = Transpose::kNo;
  MatrixView<const In> b;
  Transpose transpose_b = Transpose::kNo;
  MatrixView<Out> c;
  std::span<const Arithmetic<Out>> bias = {};  ///< empty: none
  Arithmetic<Out> alpha = 1;
  Arithmetic<Out> beta = 0;

  // op(a) is m × k, op(b) k × n.
  std::size_t m() const { return transpose_a == Transpose::kYes ? a.cols : a.rows; }
  std::size_t n() const { return transpose_b == Transpose::kYes ? b.rows : b.cols; }
  std::size_t k() const { return transpose_a == Transpose::kYes ? a.rows : a.cols; }
};
/// For float, double, BFloat16, and BFloat16 to float.
template <typename In, typename Out = In>
void gemm(const Gemm<In, Out>& args);

/// Returns whether this processor has bfloat16 products and need not widen the factors.
bool has_bfloat16_products();

}  // namespace addnorm::gemm
