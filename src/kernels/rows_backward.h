#pragma once

#include <cstddef>

#include "addnorm/norm.h"
#include "kernels/dispatch.h"
#include "kernels/plan.h"

namespace addnorm::kernels {

/// Computes rows begin … end − 1. Their terms of the gradients of γ and β are written or added to
/// `d_gamma` and `d_beta`, unless these are null.
ADDNORM_DECLARE_KERNEL(template <typename S, typename B>
                       void rows_backward(const NormOptions&, const AddNormBackward<S, B>&,
                                          const Plan&, std::size_t begin, std::size_t end,
                                          GradientMode, Arithmetic<S>* d_gamma,
                                          Arithmetic<S>* d_beta);)

}  // namespace addnorm::kernels
