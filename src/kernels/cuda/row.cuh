#pragma once

/// The parts that the kernels for NVIDIA GPUs share: stored values, the residual sum, and sums over
/// a row.

#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

#include "addnorm/norm.h"
#include "base/philox.h"
#include "kernels/cuda/plan.h"
#include "kernels/cuda/statistics.cuh"

namespace addnorm::kernels::cuda {

/// Whether this code is compiled for GPUs that have clusters.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
inline constexpr bool kHasClusters = false;
#else
inline constexpr bool kHasClusters = true;
#endif
/// Ends a kernel that is never launched on these GPUs: its body is compiled for others.
__device__ inline void never_launched() {
  asm volatile("trap;");
}

__device__ inline float to_float(float value) {
  return value;
}
__device__ inline float to_float(BFloat16 value) {
  return __uint_as_float(std::uint32_t{value.bits} << 16);
}
__device__ inline float to_float(Float16 value) {
  return __half2float(__ushort_as_half(value.bits));
}

/// Packs two neighbouring values in 16 bits each, the first in the lower half.
template <typename T>
__device__ std::uint32_t pair_of(float first, float second);
template <>
__device__ inline std::uint32_t pair_of<BFloat16>(float first, float second) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}
template <>
__device__ inline std::uint32_t pair_of<Float16>(float first, float second) {
  const __half2 pair = __floats2half2_rn(first, second);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}
template <typename T>
__device__ T value_of_half(std::uint32_t half) {
  T value;
  value.bits = static_cast<std::uint16_t>(half);
  return value;
}

/// kVector neighbouring values in their storage type.
template <typename T>
struct alignas(16) Vector {
  static constexpr int kWords = kVector * sizeof(T) / 4;
  static constexpr int kParts = kWords / 4;  ///< number of 16-byte parts
  std::uint32_t words[kWords];

  __device__ void unpack(float (&values)[kVector]) const {
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      if constexpr (sizeof(T) == 4) {
        values[i] = __uint_as_float(words[i]);
      } else {
        values[i] = to_float(value_of_half<T>(i % 2 == 0 ? words[i / 2] : words[i / 2] >> 16));
      }
    }
  }
  __device__ static Vector rounded(const float (&values)[kVector]) {
    Vector vector;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      if constexpr (sizeof(T) == 4) {
        vector.words[i] = __float_as_uint(values[i]);
      } else {
        vector.words[i] = pair_of<T>(values[2 * i], values[2 * i + 1]);
      }
    }
    return vector;
  }
  __device__ static Vector zero() {
    return {};
  }

  /// Loads from an address that is a multiple of 16 bytes.
  __device__ static Vector load(const void* from) {
    Vector vector;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      reinterpret_cast<uint4*>(vector.words)[part] = static_cast<const uint4*>(from)[part];
    }
    return vector;
  }
  __device__ void store(void* to) const {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      static_cast<uint4*>(to)[part] = reinterpret_cast<const uint4*>(words)[part];
    }
  }
};

/// Loads columns col … col + kVector − 1 of a row of `features`. kFast: the row begins at a
/// multiple of 16 bytes, and all these columns exist. Otherwise columns outside the row are read as
/// 0, and not written.
template <bool kFast, typename T>
__device__ Vector<T> load(const T* row, std::size_t col, [[maybe_unused]] std::size_t features) {
  if constexpr (kFast) {
    return Vector<T>::load(row + col);
  } else {
    float values[kVector];
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      values[i] = col + i < features ? to_float(row[col + i]) : 0.0F;
    }
    return Vector<T>::rounded(values);
  }
}
template <bool kFast, typename T>
__device__ void store(const Vector<T>& vector, T* row, std::size_t col,
                      [[maybe_unused]] std::size_t features) {
  if constexpr (kFast) {
    vector.store(row + col);
  } else {
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      if (col + i >= features) continue;
      if constexpr (sizeof(T) == 4) {
        row[col + i] = __uint_as_float(vector.words[i]);
      } else {
        row[col + i] =
            value_of_half<T>(i % 2 == 0 ? vector.words[i / 2] : vector.words[i / 2] >> 16);
      }
    }
  }
}

/// Loads γ, β or a factor. Values outside it, or of an absent parameter, are `absent`.
template <bool kFast>
__device__ void load_parameter(std::span<const float> parameter, float absent, std::size_t col,
                               float (&values)[kVector]) {
  if (parameter.empty()) {
#pragma unroll
    for (int i = 0; i < kVector; ++i) values[i] = absent;
  } else {
    load<kFast>(parameter.data(), col, parameter.size()).unpack(values);
  }
}

/// The factors of inverted dropout, one element after the other.
class DropoutFactors {
 public:
  __device__ explicit DropoutFactors(const Dropout& dropout)
      : dropout_(dropout),
        threshold_(static_cast<std::uint32_t>(dropout.probability * 4294967296.0)) {
    if (dropout.active()) keep_ = static_cast<float>(1.0 / (1.0 - dropout.probability));
  }

  __device__ float operator()(std::uint64_t element) {
    if (!dropout_.active()) return 1.0F;
    element += dropout_.offset;
    if (element / 4 != block_) {
      block_ = element / 4;
      words_ = philox(dropout_.seed, block_);
    }
    const auto word = element % 4;
    const std::uint32_t low = word == 0 ? words_[0] : words_[1];
    const std::uint32_t high = word == 2 ? words_[2] : words_[3];
    return (word < 2 ? low : high) < threshold_ ? 0.0F : keep_;
  }

 private:
  Dropout dropout_;
  std::uint32_t threshold_;
  float keep_ = 1;
  std::uint64_t block_ = ~std::uint64_t{0};
  std::array<std::uint32_t, 4> words_{};
};

/// Computes the residual sum of one element before rounding, with the CPU's operations in the CPU's
/// order.
template <typename S, typename B>
__device__ float sum_of(const ResidualAdd<S, B>& add, float x, float skip, float branch, float gain,
                        float factor) {
  // 0·∞ is NaN, but a stack without residual ignores x.
  if (!add.branch.empty() && add.skip.vector.empty() && skip == 0) x = 0;
  const float skipped = __fmul_rn(skip, x);
  if (add.branch.empty()) return skipped;
  return __fadd_rn(skipped, __fmul_rn(gain, __fmul_rn(factor, branch)));
}

/// Computes kVector values of row r of s = skip ⊙ x + gain ⊙ dropout(branch), rounded to the
/// storage type. kFast: skip and gain are numbers, and there is no dropout.
template <bool kFast, typename S, typename B>
__device__ Vector<S> residual_sum(const ResidualAdd<S, B>& add, std::size_t r, std::size_t col) {
  const std::size_t features = add.x.cols;
  float x[kVector], branch[kVector] = {}, s[kVector];
  load<kFast>(add.x.data + r * add.x.stride, col, features).unpack(x);
  if (!add.branch.empty()) {
    load<kFast>(add.branch.data + r * add.branch.stride, col, features).unpack(branch);
  }
  if constexpr (kFast) {
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      s[i] = sum_of(add, x[i], add.skip.constant, branch[i], add.gain.constant, 1.0F);
    }
  } else {
    float skip[kVector], gain[kVector];
    load_parameter<false>(add.skip.vector, add.skip.constant, col, skip);
    load_parameter<false>(add.gain.vector, add.gain.constant, col, gain);
    DropoutFactors factors(add.dropout);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      s[i] = sum_of(add, x[i], skip[i], branch[i], gain[i], factors(r * features + col + i));
    }
  }
  return Vector<S>::rounded(s);
}
/// Returns the first value of row r, rounded to the storage type.
template <bool kFast, typename S, typename B>
__device__ float first_of_sum(const ResidualAdd<S, B>& add, std::size_t r) {
  const float x = to_float(add.x.data[r * add.x.stride]);
  const float branch = add.branch.empty() ? 0.0F : to_float(add.branch.data[r * add.branch.stride]);
  float values[kVector] = {};
  if constexpr (kFast) {
    values[0] = sum_of(add, x, add.skip.constant, branch, add.gain.constant, 1.0F);
  } else {
    DropoutFactors factors(add.dropout);
    values[0] = sum_of(add, x, add.skip[0], branch, add.gain[0], factors(r * add.x.cols));
  }
  float rounded[kVector];
  Vector<S>::rounded(values).unpack(rounded);
  return rounded[0];
}

/// The place of this thread among those that share its row.
struct Place {
  RowPlan plan;
  int row;     ///< in the block
  int thread;  ///< in the row, within this block
  int rank;    ///< of the block, in its cluster

  __device__ explicit Place(const RowPlan& row_plan)
      : plan(row_plan),
        row(static_cast<int>(threadIdx.x) / row_plan.threads),
        thread(static_cast<int>(threadIdx.x) % row_plan.threads),
        rank(row_plan.blocks == 1 ? 0 : static_cast<int>(blockIdx.x) % row_plan.blocks) {}

  /// Index of the block, or of the cluster, in the grid.
  __device__ std::size_t block() const { return blockIdx.x / plan.blocks; }
  /// Returns the first column of this thread's chunk; neighbouring threads have neighbouring
  /// chunks.
  __device__ std::size_t column(int chunk) const {
    return std::size_t{kVector} * ((chunk * plan.blocks + rank) * plan.threads + thread);
  }
  __device__ bool leads() const { return thread == 0 && rank == 0; }
};

/// Waits for all threads of this row in this block.
__device__ inline void row_barrier(const Place& place) {
  if (place.plan.rows == 1) {
    __syncthreads();
  } else {
    asm volatile("bar.sync %0, %1;" ::"r"(place.row + 1), "r"(place.plan.threads) : "memory");
  }
}

inline constexpr int kMostWarps = kForward.row_threads / 32;  ///< in a block
static_assert(kMostWarps * 32 >= kDirectBackward.row_threads);

/// Shared memory for sums over rows. It is double-buffered, because a fast thread may begin the
/// next sum.
template <typename V, int N, int kWarps = kMostWarps>
struct SumMemory {
  static constexpr int kWords = N * sizeof(V) / sizeof(std::uint64_t);
  static_assert(kWords * sizeof(std::uint64_t) == N * sizeof(V));

  V of_warps[2][kWarps][N];
  alignas(16) V of_blocks[2][kMostBlocks][N];  ///< of the cluster's blocks, which exchange them
  std::uint64_t arrived[2];                    ///< barriers that count the bytes received

  /// All threads call it before the first sum. With clusters, meet_cluster() must follow.
  __device__ void prepare(const RowPlan& plan) {
    if (plan.blocks == 1 || threadIdx.x > 0) return;
#if __CUDA_ARCH__ >= 900
    for (std::uint64_t& barrier : arrived) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address_of(&barrier)) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#else
    never_launched();  // without clusters a row has one block
#endif
  }

#if __CUDA_ARCH__ >= 900
  /// Sends this block's sums to all blocks of the cluster, waits for their sums, and adds all up.
  __device__ void add_blocks(V (&sums)[N], const Place& place, int count) {
    const int turn = count % 2;
    const std::uint32_t barrier = address_of(&arrived[turn]);
    expect(turn, place);
    if (static_cast<int>(threadIdx.x) < place.plan.blocks) {
      const std::uint32_t to = address_in(threadIdx.x, address_of(of_blocks[turn][place.rank]));
      const std::uint32_t signal = address_in(threadIdx.x, barrier);
      std::uint64_t words[kWords];
      memcpy(words, sums, sizeof(sums));
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        asm volatile(
            "st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(
                to + 8 * i),
            "l"(words[i]), "r"(signal)
            : "memory");
      }
    }
    await(count);
#pragma unroll
    for (int n = 0; n < N; ++n) sums[n] = of_blocks[turn][0][n];
    for (int block = 1; block < place.plan.blocks; ++block) {
#pragma unroll
      for (int n = 0; n < N; ++n) sums[n] += of_blocks[turn][block][n];
    }
  }
  /// Thread n does the same for sum n alone.
  __device__ void add_blocks(V& sum, int n, const Place& place, int count) {
    static_assert(sizeof(V) == 4);
    const int turn = count % 2;
    expect(turn, place);
    for (int block = 0; block < place.plan.blocks; ++block) {
      asm volatile(
          "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(
              address_in(block, address_of(&of_blocks[turn][place.rank][n]))),
          "r"(__float_as_uint(sum)), "r"(address_in(block, address_of(&arrived[turn])))
          : "memory");
    }
    await(count);
    sum = of_blocks[turn][0][n];
    for (int block = 1; block < place.plan.blocks; ++block) sum += of_blocks[turn][block][n];
  }

 private:
  /// Thread 0 sets the number of bytes to expect.
  __device__ void expect(int turn, const Place& place) {
    if (threadIdx.x > 0) return;
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address_of(&arrived[turn])),
        "r"(static_cast<int>(sizeof(V)) * N * place.plan.blocks)
        : "memory");
  }
  __device__ void await(int count) {
    std::uint32_t done = 0;
    while (done == 0) {
      asm volatile(
          "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, "
          "0, p; }"
          : "=r"(done)
          : "r"(address_of(&arrived[count % 2])), "r"(count / 2 % 2)
          : "memory");
    }
  }
  __device__ static std::uint32_t address_of(const void* in_shared_memory) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(in_shared_memory));
  }
  /// Returns the corresponding shared-memory address in another block of the cluster.
  __device__ static std::uint32_t address_in(unsigned rank, std::uint32_t address) {
    std::uint32_t result;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(result) : "r"(address), "r"(rank));
    return result;
  }
#else
  __device__ void add_blocks(V (&)[N], const Place&, int) {}
  __device__ void add_blocks(V&, int, const Place&, int) {}
#endif
};

/// Call it after prepare() and before the first sum, so that no block sends to a block that is not
/// ready. A block may end at any time, because it has received everything that is sent to it.
__device__ inline void meet_cluster(const RowPlan& plan) {
#if __CUDA_ARCH__ >= 900
  if (plan.blocks > 1) cooperative_groups::this_cluster().sync();
#endif
}

template <typename V, int N>
__device__ void sum_over_warp(V (&sums)[N], const RowPlan& plan) {
  for (int distance = min(plan.threads, 32) / 2; distance > 0; distance /= 2) {
#pragma unroll
    for (V& sum : sums) sum += __shfl_xor_sync(~0U, sum, distance);
  }
}

/// Adds up N numbers of each thread over its row, in an order that depends only on the plan. All
/// threads of the row get the sums. All threads of a block must call it equally often, with `count`
/// = 0, 1, 2, …
template <typename V, int N, int kWarps>
__device__ void sum_over_row(V (&sums)[N], const Place& place, SumMemory<V, N, kWarps>& memory,
                             int count) {
  const RowPlan& plan = place.plan;
  sum_over_warp(sums, plan);
  if (plan.threads > 32) {
    const int warps = plan.threads / 32;
    V(*const of_row)[N] = memory.of_warps[count % 2] + place.row * warps;
    if (place.thread % 32 == 0) {
#pragma unroll
      for (int n = 0; n < N; ++n) of_row[place.thread / 32][n] = sums[n];
    }
    row_barrier(place);
#pragma unroll
    for (int n = 0; n < N; ++n) sums[n] = of_row[0][n];
    for (int warp = 1; warp < warps; ++warp) {
#pragma unroll
      for (int n = 0; n < N; ++n) sums[n] += of_row[warp][n];
    }
  }
  if (plan.blocks > 1) memory.add_blocks(sums, place, count);
}

/// The same for many sums that are needed once each: one thread of the row calls use(n, sum n).
template <int N, int kWarps, typename Use>
__device__ void total_over_row(float (&sums)[N], const Place& place,
                               SumMemory<float, N, kWarps>& memory, int count, const Use& use) {
  const RowPlan& plan = place.plan;
  sum_over_warp(sums, plan);
  if (plan.threads <= 32) {
    if (place.thread > 0) return;
#pragma unroll
    for (int n = 0; n < N; ++n) use(n, sums[n]);
    return;
  }
  static_assert(N <= 32);
  const int warps = plan.threads / 32;
  float(*const of_row)[N] = memory.of_warps[count % 2] + place.row * warps;
  if (place.thread % 32 == 0) {
#pragma unroll
    for (int n = 0; n < N; ++n) of_row[place.thread / 32][n] = sums[n];
  }
  row_barrier(place);
  const int n = place.thread;
  if (n >= N) return;
  float sum = of_row[0][n];
  for (int warp = 1; warp < warps; ++warp) sum += of_row[warp][n];
  if (plan.blocks > 1) memory.add_blocks(sum, n, place, count);
  if (place.rank == 0) use(n, sum);
}

/// Loads the effective γ of one chunk: γ or 1 + γ, times the output scale.
template <bool kFast>
__device__ void load_gamma(const NormNumbers& norm, std::span<const float> gamma, std::size_t col,
                           float (&values)[kVector]) {
  load_parameter<kFast>(gamma, 1.0F - norm.gamma_offset, col, values);
  if (norm.gamma_offset == 0 && norm.output_scale == 1) return;
#pragma unroll
  for (float& value : values) value = (norm.gamma_offset + value) * norm.output_scale;
}
/// Loads β of one chunk, times the output scale.
template <bool kFast>
__device__ void load_beta(const NormNumbers& norm, std::span<const float> beta, std::size_t col,
                          float (&values)[kVector]) {
  load_parameter<kFast>(beta, 0.0F, col, values);
  if (norm.output_scale == 1) return;
#pragma unroll
  for (float& value : values) value *= norm.output_scale;
}

}  // namespace addnorm::kernels::cuda
