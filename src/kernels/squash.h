#pragma once

#include <cstddef>
#include <string_view>

#include "addnorm/norm.h"

/// kDyT and kDerf: the part of add_norm_forward and add_norm_backward for them.

namespace addnorm::kernels {

template <typename S, typename B>
void squash_forward(std::string_view where, const NormOptions& options,
                    const AddNormForward<S, B>& args);
template <typename S, typename B>
void squash_backward(std::string_view where, const NormOptions& options,
                     const AddNormBackward<S, B>& args);

/// Returns norm_workspace() for these kinds.
std::size_t squash_workspace(std::size_t rows, std::size_t features);

/// Sums of a block of rows for the gradients of γ, β, α and the shift, for each feature.
template <typename V>
struct SquashSums {
  V* gamma;
  V* beta;
  V* alpha;
  V* shift;
};

}  // namespace addnorm::kernels
