#pragma once

/// The parts of a kernel table; each is filled by the file of its name.

#include "kernels/kernel_table.h"
#include "kernels/simd/target.h"

namespace addnorm::kernels {
namespace HWY_NAMESPACE {

const KernelTable& kernel_table();

void fill_activation(KernelTable& table);
void fill_add_norm_backward(KernelTable& table);
void fill_add_norm_forward(KernelTable& table);
void fill_block_sums(KernelTable& table);
void fill_channel_norm(KernelTable& table);
void fill_convert(KernelTable& table);
void fill_lanes_backward(KernelTable& table);
void fill_lanes_forward(KernelTable& table);
void fill_residual_add(KernelTable& table);
void fill_softmax(KernelTable& table);
void fill_squash(KernelTable& table);

/// Calls fill<V>() for the types of values of this instruction set.
template <typename Fill>
void for_each_type(const Fill& fill) {
  fill.template operator()<float>();
  if constexpr (ADDNORM_IS_BASELINE) fill.template operator()<double>();
}
/// Calls fill<S, B>() for the pairs of storage types of this instruction set.
template <typename Fill>
void for_each_storage(const Fill& fill) {
  fill.template operator()<float, float>();
  fill.template operator()<BFloat16, BFloat16>();
  fill.template operator()<Float16, Float16>();
  fill.template operator()<float, BFloat16>();
  fill.template operator()<float, Float16>();
  if constexpr (ADDNORM_IS_BASELINE) fill.template operator()<double, double>();
}

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
