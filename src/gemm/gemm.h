#pragma once

#include "addnorm/view.h"

namespace addnorm {

enum class Transpose { kNo, kYes };

/// c = alpha·op(a)·op(b) + beta·c, row-major, op(m) = m or mᵀ. With beta = 0, c is not read. c must
/// not overlap a or b. float32 through oneDNN, float64 and WebAssembly through Eigen; both give the
/// same bits every time on one machine with one number of threads.
template <typename T>
struct Gemm {
  MatrixView<const T> a;
  Transpose transpose_a = Transpose::kNo;
  MatrixView<const T> b;
  Transpose transpose_b = Transpose::kNo;
  MatrixView<T> c;
  T alpha = 1;
  T beta = 0;
};
template <typename T>
void gemm(const Gemm<T>& args);

}  // namespace addnorm
