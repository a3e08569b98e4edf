#pragma once

/// The kernels of each instruction set. src/kernels/simd is compiled once for each, and fills a
/// table.

#include <tuple>
#include <type_traits>

#include "kernels/activation.h"
#include "kernels/add_norm.h"
#include "kernels/block_sums.h"
#include "kernels/channel_norm.h"
#include "kernels/convert.h"
#include "kernels/lanes.h"
#include "kernels/residual_add.h"
#include "kernels/softmax.h"
#include "kernels/squash.h"
#include "kernels/storages.h"

namespace addnorm::kernels {

/// The kernels of one instruction set. Those of double are in the baseline's table alone: they
/// serve references and tests.
struct KernelTable {
  PerStorage<ForwardRows> forward;
  PerStorage<BackwardRows> backward;
  PerStorage<LaneRowsForward> lanes_forward;
  PerStorage<LaneRowsBackward> lanes_backward;
  PerStorage<AddRows> add;
  PerStorage<BranchRows> branch;
  PerStorage<SquashForwardRows> squash_forward;
  PerStorage<SquashBackwardRows> squash_backward;
  std::tuple<SetKernels<float>, SetKernels<double>> channel_norm;
  std::tuple<AddBlocks<float>, AddBlocks<double>> block_sums;
  std::tuple<SoftmaxKernels<float>, SoftmaxKernels<double>> softmax;
  std::tuple<ActivationKernels<float>, ActivationKernels<double>, ActivationKernels<BFloat16>>
      activation;
  ConvertKernels convert;
};

/// The table of the instruction set in use.
const KernelTable& kernels();
/// The table of the instruction set that every machine has.
const KernelTable& baseline_kernels();

/// The table in use that has kernels for values of type V.
template <typename V>
const KernelTable& kernels_of() {
  if constexpr (std::is_same_v<V, double>) {
    return baseline_kernels();
  } else {
    return kernels();
  }
}

}  // namespace addnorm::kernels
