#pragma once

/// The parts that forward and backward of lanes share: the numbers of the mixes, and X′ and R·X′.

#include "addnorm/lanes.h"
#include "kernels/cuda/row.cuh"
#include "kernels/cuda/staging.cuh"

namespace addnorm::kernels::cuda {

/// The numbers that mix N lanes of one row.
template <int N>
struct Mixes {
  float carry[N][N], write[N], read[N];
  bool carries, writes, reads;  ///< false: A = I, nothing is written, nothing is read
  bool of_all_rows;

  template <typename S, typename B>
  __device__ Mixes(const LanesForward<S, B>& args, std::size_t r)
      : carries(!args.carry.empty()),
        writes(!args.branch.empty()),
        reads(!args.read.empty()),
        of_all_rows(args.carry.rows < 2 && args.write.rows < 2 && args.read.rows < 2) {
    const auto of_row = [r](const LaneMix<float>& mix) {
      return mix.data + (mix.rows == 1 ? 0 : r) * mix.stride;
    };
#pragma unroll
    for (int p = 0; p < N; ++p) {
#pragma unroll
      for (int j = 0; j < N; ++j) carry[p][j] = carries ? of_row(args.carry)[p * N + j] : 0.0F;
      write[p] = writes ? of_row(args.write)[p] : 0.0F;
      read[p] = reads ? of_row(args.read)[p] : 0.0F;
    }
  }
};

/// kVector columns of a row after the mixes.
template <typename S, int N>
struct Mixed {
  Vector<S> made[N];  ///< X′ as it is stored
  float z[kVector];   ///< R·X′

  /// Computes X′ and R·X′ from x and mask ⊙ F. Products and sums round one by one, in the CPU's
  /// order.
  __device__ Mixed(const Mixes<N>& mixes, const float (&x)[N][kVector], const float (&f)[kVector]) {
#pragma unroll
    for (int p = 0; p < N; ++p) {
      float sum[kVector];
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        sum[i] = mixes.carries ? x[0][i] * mixes.carry[p][0] : x[p][i];
#pragma unroll
        for (int j = 1; j < N; ++j) {
          if (mixes.carries) sum[i] = sum[i] + x[j][i] * mixes.carry[p][j];
        }
        if (mixes.writes) sum[i] = sum[i] + f[i] * mixes.write[p];
      }
      made[p] = Vector<S>::rounded(sum);
      made[p].unpack(sum);
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        const float product = sum[i] * mixes.read[p];
        z[i] = p == 0 ? product : z[i] + product;
      }
    }
  }
};

/// Computes columns of mask ⊙ F.
template <bool kFast, typename S, typename B>
__device__ void drop(const LanesForward<S, B>& args, std::size_t r, std::size_t col,
                     float (&f)[kVector]) {
  if constexpr (!kFast) {
    if (args.branch.empty() || !args.dropout.active()) return;
    DropoutFactors factors(args.dropout);
#pragma unroll
    for (int i = 0; i < kVector; ++i) f[i] = factors(r * args.x.features + col + i) * f[i];
  }
}

template <typename T>
__device__ T* lane_row(const LanesView<T>& view, std::size_t r, int lane) {
  return view.data + r * view.row_stride + lane * view.lane_stride;
}

/// Returns the first value of R·X′ of row r, from memory.
template <int N, typename S, typename B>
__device__ float first_of_read(const LanesForward<S, B>& args, const Mixes<N>& mixes,
                               std::size_t r) {
  float x[N][kVector], f[kVector] = {};
#pragma unroll
  for (int j = 0; j < N; ++j) load<false>(lane_row(args.x, r, j), 0, 1).unpack(x[j]);
  if (mixes.writes) {
    load<false>(lane_row(args.branch, r, 0), 0, 1).unpack(f);
    drop<false>(args, r, 0, f);
  }
  return Mixed<S, N>(mixes, x, f).z[0];
}

/// Whether the kernels of lanes read rows directly: those of kDirectLanes, for GPUs without
/// clusters. They do if the rows do not begin at multiples of 16 bytes, or a block of kLanesForward
/// or kLanesBackward does not hold a row, or shared memory (`staged` bytes of a block) does not
/// hold two rows.
inline bool reads_directly(const Device& device, const RowPlan& plan, bool fast,
                           std::size_t staged) {
  if (device.clusters) return false;
  return !fast || is_wider(plan, kLanesForward) || staged > device.shared_memory;
}
static_assert(kLanesForward.row_threads == kLanesBackward.row_threads);

/// Whether a kernel of lanes is launched on GPUs of the generation that is compiled for.
template <bool kFast, bool kDirect>
inline constexpr bool kIsLaunched = kHasClusters ? !kDirect : kFast || kDirect;

inline constexpr int kDirectWarps = kDirectLanes.row_threads / 32;

/// The access to the rows of a call. kStaged: a row is copied to shared memory while the previous
/// row is computed. Otherwise rows are read directly.
template <typename S, typename B, int N, bool kIsBackward, bool kFast, bool kStaged = kFast>
class LaneRows {
 public:
  __device__ LaneRows(const LanesForward<S, B>& args, LanesView<const S> d_sum,
                      LanesView<const B> dy, std::size_t col, uint4* memory)
      : args_(args), d_sum_(d_sum), dy_(dy), col_(col), stages_(memory) {}

  /// Starts to copy row r, if there is such a row.
  __device__ void request(std::size_t r) {
    if constexpr (kStaged) {
      if (r < args_.x.rows && col_ < args_.x.features) {
        copy<N>(args_.x, r, 0);
        copy<1>(args_.branch, r, kBranch);
        if constexpr (kIsBackward) {
          copy<N>(d_sum_, r, kSum);
          copy<1>(dy_, r, kDy);
        }
      }
      stages_.commit();
    }
  }
  /// Waits for the row that was requested first.
  __device__ void await() {
    if constexpr (kStaged) stages_.await();
  }
  /// Makes the next row the current one.
  __device__ void release() {
    if constexpr (kStaged) stages_.release();
  }

  __device__ void x(std::size_t r, int lane, float (&values)[kVector]) const {
    read(args_.x, r, lane, 0, values);
  }
  __device__ void branch(std::size_t r, float (&values)[kVector]) const {
    read(args_.branch, r, 0, kBranch, values);
    drop<kFast>(args_, r, col_, values);
  }
  /// Computes X′ and R·X′ of the current row.
  __device__ Mixed<S, N> mix(const Mixes<N>& mixes, std::size_t r) const {
    float values[N][kVector], f[kVector];
#pragma unroll
    for (int j = 0; j < N; ++j) x(r, j, values[j]);
    branch(r, f);
    return Mixed<S, N>(mixes, values, f);
  }
  __device__ void d_sum(std::size_t r, int lane, float (&values)[kVector]) const {
    read(d_sum_, r, lane, kSum, values);
  }
  __device__ void dy(std::size_t r, float (&values)[kVector]) const {
    read(dy_, r, 0, kDy, values);
  }

 private:
  static constexpr int kBranch = N * Vector<S>::kParts;
  static constexpr int kSum = kBranch + Vector<B>::kParts;
  static constexpr int kDy = kSum + N * Vector<S>::kParts;

 public:
  using RowStages = Stages<1, kIsBackward ? kDy + Vector<B>::kParts : kSum>;

 private:
  template <int kLanes, typename T>
  __device__ void copy(const LanesView<const T>& view, std::size_t r, int part) {
    if (view.empty()) return;
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) {
      stages_.copy(lane_row(view, r, lane) + col_, 0, part + lane * Vector<T>::kParts);
    }
  }
  /// Reads 0 if the matrix is absent.
  template <typename T>
  __device__ void read(const LanesView<const T>& view, std::size_t r, int lane,
                       [[maybe_unused]] int part, float (&values)[kVector]) const {
    if (view.empty()) return Vector<T>::zero().unpack(values);
    if constexpr (kStaged) {
      stages_.template read<T>(0, part + lane * Vector<T>::kParts).unpack(values);
    } else if constexpr (kFast) {  // threads without columns read column 0, which does not count
      const std::size_t in_row = col_ < view.features ? col_ : 0;
      load<true>(lane_row(view, r, lane), in_row, view.features).unpack(values);
    } else {
      load<false>(lane_row(view, r, lane), col_, view.features).unpack(values);
    }
  }

  const LanesForward<S, B>& args_;
  const LanesView<const S> d_sum_;
  const LanesView<const B> dy_;
  const std::size_t col_;
  RowStages stages_;
};

}  // namespace addnorm::kernels::cuda
