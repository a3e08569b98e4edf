#pragma once

#include "gemm/gemm.h"

namespace addnorm::gemm {

/// The product by oneDNN, with ADDNORM_ONEDNN; neither m, n nor k is 0.
template <typename In, typename Out>
void multiply_by_onednn(const Gemm<In, Out>& args);

/// Whether this processor multiplies in bfloat16: AVX-512 is the least that oneDNN asks for.
bool onednn_has_bfloat16();

}  // namespace addnorm::gemm
