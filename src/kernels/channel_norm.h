#pragma once

#include "addnorm/norm.h"

/// Batch, instance and group norms: what add_norm_forward and add_norm_backward do of these kinds.

namespace addnorm::kernels {

template <typename T>
void channel_norm_forward(const NormOptions& options, const AddNormForward<T>& args);
template <typename T>
void channel_norm_backward(const NormOptions& options, const AddNormBackward<T>& args);

}  // namespace addnorm::kernels
