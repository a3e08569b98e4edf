#pragma once

/// Launches kernels with the checked arguments of a call.

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
                              const Device& device, bool fast, StreamHandle stream);
/// Launches the kernel for 2 or 4 lanes.
template <typename S, typename B>
void launch_lanes_forward(const LanesForward<S, B>& args, const Device& device, bool fast,
                          StreamHandle stream);
template <typename S, typename B>
void launch_lanes_backward(const LanesBackward<S, B>& args, const Device& device, bool fast,
                           StreamHandle stream);

/// Returns whether the build has code for the current device: compiled for its generation, or PTX
/// of it that the driver compiles.
bool has_code(const Device& device);

}  // namespace addnorm::kernels::cuda

#ifdef __CUDACC__
#include <cuda_runtime.h>

#include "kernels/cuda/error.h"

namespace addnorm::kernels::cuda {

/// Dynamic shared memory of a kernel, in bytes. `most` is the size for its widest plan. It is the
/// same in every call, because it becomes an attribute of the kernel, which other host threads use
/// too.
struct SharedMemory {
  std::size_t bytes = 0;
  std::size_t most = 0;
};

/// Launches `kernel` with the given number of blocks, or of clusters.
template <typename... Parameters, typename... Args>
void launch(void (*kernel)(Parameters...), const RowPlan& plan, std::size_t blocks,
            SharedMemory shared, StreamHandle stream, const Args&... args) {
  if (shared.most > 0) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared.most)));
  }
  constexpr int kPortable = 8;
  if (plan.blocks > kPortable) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  }
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(blocks * plan.blocks);
  config.blockDim = static_cast<unsigned>(plan.threads * plan.rows);
  config.dynamicSmemBytes = shared.bytes;
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
