#pragma once

/// The gradients of parameters as sums over rows: first in the registers of a block's threads, then
/// over the rows that a block computes together, then over blocks. Each order is fixed.

#include <algorithm>
#include <array>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/row.cuh"

namespace addnorm::kernels::cuda {

/// partials[col] = Σ over the block's rows of the threads' sums. If there are several rows,
/// `exchange` has kVector·kChunks values for each thread, and its contents are no longer needed.
template <bool kFast, int kChunks>
__device__ void write_block_sums(const float (&sums)[kChunks][kVector], const Place& place,
                                 float* exchange, float* partials, std::size_t features) {
  float total[kChunks][kVector];
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
#pragma unroll
    for (int i = 0; i < kVector; ++i) total[c][i] = sums[c][i];
  }
  if (place.plan.rows > 1) {
    const auto at = [&](int c, int i, int thread) -> float& {
      return exchange[(c * kVector + i) * blockDim.x + thread];
    };
    __syncthreads();
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int i = 0; i < kVector; ++i) at(c, i, threadIdx.x) = sums[c][i];
    }
    __syncthreads();
    if (place.row > 0) return;
    for (int row = 1; row < place.plan.rows; ++row) {
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
#pragma unroll
        for (int i = 0; i < kVector; ++i) {
          total[c][i] += at(c, i, row * place.plan.threads + place.thread);
        }
      }
    }
  }
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const Vector<float> vector = Vector<float>::rounded(total[c]);
    if (place.column(c) < features) store<kFast>(vector, partials, place.column(c), features);
  }
}

inline constexpr int kSumColumns = 32;  ///< columns of a block
inline constexpr int kSumRows = 16;     ///< threads of a block for each column

/// A parameter's gradient, and its terms.
struct ColumnSums {
  const float* partials;
  float* gradient;
  unsigned columns;  ///< 0: the gradient is not wanted

  ColumnSums(const float* sums, std::span<float> to)
      : partials(sums), gradient(to.data()), columns(static_cast<unsigned>(to.size())) {}
};

/// Block (b, g) computes some columns of gradient g.
template <int kGradients>
__global__ void column_sums_kernel(const std::array<ColumnSums, kGradients> all, std::size_t count,
                                   std::size_t stride, float factor, GradientMode mode) {
  __shared__ double sums[kSumRows][kSumColumns];
  const ColumnSums& of = all[blockIdx.y];
  const std::size_t col = blockIdx.x * kSumColumns + threadIdx.x;
  if (blockIdx.x * kSumColumns >= of.columns) return;
  double sum = 0;
  if (col < of.columns) {
#pragma unroll 4
    for (std::size_t p = threadIdx.y; p < count; p += kSumRows) {
      sum += of.partials[p * stride + col];
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || col >= of.columns) return;
  for (int row = 1; row < kSumRows; ++row) sum += sums[row][threadIdx.x];
  const float scaled = static_cast<float>(sum) * factor;
  of.gradient[col] = mode == GradientMode::kOverwrite ? scaled : of.gradient[col] + scaled;
}

/// gradient (+)= factor·Σ over `count` rows of partials with the stride `stride`.
template <int kGradients>
void launch_column_sums(const std::array<ColumnSums, kGradients>& all, std::size_t count,
                        std::size_t stride, float factor, GradientMode mode, StreamHandle stream) {
  unsigned columns = 0;
  for (const ColumnSums& one : all) columns = std::max(columns, one.columns);
  if (columns == 0) return;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3((columns + kSumColumns - 1) / kSumColumns, kGradients);
  config.blockDim = dim3(kSumColumns, kSumRows);
  config.stream = stream;
  check(cudaLaunchKernelEx(&config, column_sums_kernel<kGradients>, all, count, stride, factor,
                           mode));
}

}  // namespace addnorm::kernels::cuda
