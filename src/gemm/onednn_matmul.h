#pragma once

#include "gemm/gemm.h"

namespace addnorm::gemm {

/// Multiplies with oneDNN, under ADDNORM_ONEDNN; m, n and k are not 0.
template <typename In, typename Out>
void multiply_by_onednn(const Gemm<In, Out>& args);

/// Returns whether this processor multiplies in bfloat16; oneDNN needs at least AVX-512.
bool onednn_has_bfloat16();

}  // namespace addnorm::gemm
