#include "kernels/simd/parts.h"

namespace addnorm::kernels {
namespace HWY_NAMESPACE {

const KernelTable& kernel_table() {
  static const KernelTable table = [] {
    KernelTable made = {};
    fill_activation(made);
    fill_add_norm_backward(made);
    fill_add_norm_forward(made);
    fill_block_sums(made);
    fill_channel_norm(made);
    fill_convert(made);
    fill_lanes_backward(made);
    fill_lanes_forward(made);
    fill_residual_add(made);
    fill_softmax(made);
    fill_squash(made);
    return made;
  }();
  return table;
}

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
