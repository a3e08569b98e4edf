#pragma once

/// From the checked arguments of a call to kernels on the device.

#include <cstddef>

#include "addnorm/cuda.h"
#include "addnorm/lanes.h"
#include "addnorm/norm.h"
#include "kernels/cuda/plan.h"
#include "kernels/cuda/storages.h"

namespace addnorm::kernels::cuda {

using addnorm::cuda::StreamHandle;

/// `fast`: all rows and parameters begin at multiples of 16 bytes, the features are a multiple of
/// kVector, factors are numbers, and nothing is dropped.
template <typename S, typename B>
void launch_add_norm_forward(const NormOptions& options, const AddNormForward<S, B>& args,
                             const RowPlan& plan, bool fast, StreamHandle stream);
template <typename S, typename B>
void launch_add_norm_backward(const NormOptions& options, const AddNormBackward<S, B>& args,
                              const RowPlan& plan, bool fast, StreamHandle stream);
/// Of 2 or 4 lanes.
template <typename S, typename B>
void launch_lanes_forward(const LanesForward<S, B>& args, const RowPlan& plan, bool fast,
                          StreamHandle stream);
template <typename S, typename B>
void launch_lanes_backward(const LanesBackward<S, B>& args, const RowPlan& plan, bool fast,
                           StreamHandle stream);

}  // namespace addnorm::kernels::cuda

#ifdef __CUDACC__
#include <cuda_runtime.h>

#include "kernels/cuda/error.h"

namespace addnorm::kernels::cuda {

/// Starts `kernel` in so many blocks, or clusters of them, with so many bytes of shared memory
/// beside its own.
template <typename... Parameters, typename... Args>
void launch(void (*kernel)(Parameters...), const RowPlan& plan, std::size_t blocks,
            std::size_t shared_bytes, StreamHandle stream, const Args&... args) {
  if (shared_bytes > 0) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes)));
  }
  constexpr int kPortable = 8;
  if (plan.blocks > kPortable) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  }
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(blocks * plan.blocks);
  config.blockDim = static_cast<unsigned>(plan.threads * plan.rows);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(plan.blocks), 1, 1};
  config.attrs = &cluster;
  config.numAttrs = plan.blocks > 1 ? 1 : 0;
  check(cudaLaunchKernelEx(&config, kernel, args...));
}

}  // namespace addnorm::kernels::cuda
#endif
