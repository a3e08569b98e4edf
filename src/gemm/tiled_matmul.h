#pragma once

#include "gemm/gemm.h"

namespace addnorm::gemm {

/// Multiplies in vectors of four, on one thread; m, n and k are not 0. It serves WebAssembly, which
/// has no oneDNN, and for which Eigen 3.4 has no vectors. Sums run over k in order, so the bits are
/// the same on every machine.
void multiply_in_tiles(const Gemm<float>& args);

}  // namespace addnorm::gemm
