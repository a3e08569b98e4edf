#pragma once

/// Copies rows from memory to shared memory in the background.

#include <cuda_pipeline.h>

#include "kernels/cuda/row.cuh"

namespace addnorm::kernels::cuda {

/// Shared memory for two rows: one is copied while the row before it is computed. Each thread
/// copies the values that it reads itself, so no thread waits for another. A chunk has kParts parts
/// of 16 bytes.
template <int kChunks, int kParts>
class Stages {
 public:
  static constexpr int kRows = 2;
  static constexpr std::size_t kThreadBytes = std::size_t{kRows} * kChunks * kParts * sizeof(uint4);

  __device__ explicit Stages(uint4* memory) : memory_(memory + threadIdx.x) {}

  /// Starts to copy a vector of the requested row.
  template <typename T>
  __device__ void copy(const T* from, int chunk, int part) const {
#pragma unroll
    for (int p = 0; p < Vector<T>::kParts; ++p) {
      __pipeline_memcpy_async(at(requested_, chunk, part + p),
                              reinterpret_cast<const uint4*>(from) + p, sizeof(uint4));
    }
  }
  /// Ends the requested row.
  __device__ void commit() {
    __pipeline_commit();
    requested_ ^= 1;
  }
  /// Waits for all rows except the one requested last.
  __device__ void await() const {
    __pipeline_wait_prior(1);
  }
  /// Makes the next row the current one.
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
  /// Neighbouring threads have neighbouring addresses.
  __device__ uint4* at(int row, int chunk, int part) const {
    return memory_ + ((row * kChunks + chunk) * kParts + part) * blockDim.x;
  }

  uint4* memory_;
  int requested_ = 0;
  int current_ = 0;
};

}  // namespace addnorm::kernels::cuda
