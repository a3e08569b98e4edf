#pragma once

/// Rows on their way from memory to the threads that want them.

#include <cuda_pipeline.h>

#include "kernels/cuda/row.cuh"

namespace addnorm::kernels::cuda {

/// Shared memory for two rows: one arrives while the one before it is worked on. A thread copies
/// what it reads itself, so nobody waits for others. A chunk has kParts of 16 bytes each.
template <int kChunks, int kParts>
class Stages {
 public:
  static constexpr int kRows = 2;
  static constexpr std::size_t kThreadBytes = std::size_t{kRows} * kChunks * kParts * sizeof(uint4);

  __device__ explicit Stages(uint4* memory) : memory_(memory + threadIdx.x) {}

  /// Begins to copy a vector of the row that is requested.
  template <typename T>
  __device__ void copy(const T* from, int chunk, int part) const {
#pragma unroll
    for (int p = 0; p < Vector<T>::kParts; ++p) {
      __pipeline_memcpy_async(at(requested_, chunk, part + p),
                              reinterpret_cast<const uint4*>(from) + p, sizeof(uint4));
    }
  }
  /// The row that is requested is whole.
  __device__ void commit() {
    __pipeline_commit();
    requested_ ^= 1;
  }
  /// Waits for all rows but the one that was requested last.
  __device__ void await() const {
    __pipeline_wait_prior(1);
  }
  /// From now on the next row is read.
  __device__ void release() {
    current_ ^= 1;
  }
  template <typename T>
  __device__ Vector<T> read(int chunk, int part) const {
    Vector<T> vector;
#pragma unroll
    for (int p = 0; p < Vector<T>::kParts; ++p) {
      reinterpret_cast<uint4*>(vector.words)[p] = *at(current_, chunk, part + p);
    }
    return vector;
  }

 private:
  /// Those of neighbouring threads stand side by side.
  __device__ uint4* at(int row, int chunk, int part) const {
    return memory_ + ((row * kChunks + chunk) * kParts + part) * blockDim.x;
  }

  uint4* memory_;
  int requested_ = 0;
  int current_ = 0;
};

}  // namespace addnorm::kernels::cuda
