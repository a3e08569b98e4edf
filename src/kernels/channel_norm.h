#pragma once

#include <cstddef>
#include <string_view>

#include "addnorm/norm.h"

/// Batch, instance and group norms: the part of add_norm_forward and add_norm_backward for them.

namespace addnorm::kernels {

template <typename T>
void channel_norm_forward(std::string_view where, const NormOptions& options,
                          const AddNormForward<T>& args);
template <typename T>
void channel_norm_backward(std::string_view where, const NormOptions& options,
                           const AddNormBackward<T>& args);

/// Computes norm_sets(); errors begin with `where`.
std::size_t count_sets(std::string_view where, const NormOptions& options, std::size_t rows,
                       std::size_t features, std::size_t positions);

}  // namespace addnorm::kernels
