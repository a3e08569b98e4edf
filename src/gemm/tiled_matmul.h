#pragma once

#include "gemm/gemm.h"

namespace addnorm::gemm {

/// The product in vectors of four, on one thread; neither m, n nor k is 0. For WebAssembly, where
/// there is no oneDNN and Eigen 3.4 has no vectors. Sums run over k in its order, so the bits are
/// the same on every machine.
void multiply_in_tiles(const Gemm<float>& args);

}  // namespace addnorm::gemm
