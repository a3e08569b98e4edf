#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "addnorm/error.h"

namespace addnorm::kernels::cuda {

/// Throws an Error with CUDA's message unless `status` is a success.
inline void check(cudaError_t status) {
  if (status != cudaSuccess) throw Error(std::string("CUDA: ") + cudaGetErrorString(status));
}

}  // namespace addnorm::kernels::cuda
