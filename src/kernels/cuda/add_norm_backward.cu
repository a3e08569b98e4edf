#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/row.cuh"
#include "kernels/cuda/staging.cuh"

namespace addnorm::kernels::cuda {
namespace {

/// g = γ·dy and x − mean of one chunk.
template <typename S, typename B, bool kFast>
struct Chunk {
  float from_mean[kVector], dy[kVector], g[kVector];

  __device__ Chunk(const NormNumbers& norm, const AddNormBackward<S, B>& args,
                   const NormStatistics<float>& statistics, const Vector<S>& s_vector,
                   const Vector<B>& dy_vector, std::size_t col) {
    float gamma[kVector];
    load_gamma<kFast>(norm, args.gamma, col, gamma);
    s_vector.unpack(from_mean);
    dy_vector.unpack(dy);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      const bool inside = kFast || col + i < args.s.cols;
      from_mean[i] = inside ? cuda::from_mean(statistics, from_mean[i]) : 0.0F;
      g[i] = gamma[i] * dy[i];
    }
  }
};

/// The access to the rows of a call. kStaged: a row is copied to shared memory while the previous
/// row is computed. Otherwise rows are read directly.
template <typename S, typename B, int kChunks, bool kFast, bool kStaged = kFast>
class Rows {
 public:
  __device__ Rows(const AddNormBackward<S, B>& args, const Place& place, uint4* memory)
      : args_(args), place_(place), stages_(memory) {}

  /// Starts to copy row r, if there is such a row.
  __device__ void request(std::size_t r) {
    if constexpr (kStaged) {
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        const std::size_t col = place_.column(c);
        if (r >= args_.s.rows || col >= args_.s.cols) continue;
        stages_.copy(args_.s.data + r * args_.s.stride + col, c, 0);
        stages_.copy(args_.dy.data + r * args_.dy.stride + col, c, kDy);
        if (args_.d_residual.empty()) continue;
        stages_.copy(args_.d_residual.data + r * args_.d_residual.stride + col, c, kResidual);
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

  __device__ Vector<S> s(std::size_t r, int chunk) const {
    return read(args_.s, r, chunk, 0);
  }
  __device__ Vector<B> dy(std::size_t r, int chunk) const {
    return read(args_.dy, r, chunk, kDy);
  }
  __device__ Vector<S> d_residual(std::size_t r, int chunk) const {
    return read(args_.d_residual, r, chunk, kResidual);
  }

  static constexpr int kDy = Vector<S>::kParts;
  static constexpr int kResidual = kDy + Vector<B>::kParts;
  using RowStages = Stages<kChunks, kResidual + Vector<S>::kParts>;

 private:
  template <typename T>
  __device__ Vector<T> read(const MatrixView<const T>& matrix, std::size_t r, int chunk,
                            [[maybe_unused]] int part) const {
    if constexpr (kStaged) {
      return stages_.template read<T>(chunk, part);
    } else {
      return load<kFast>(matrix.data + r * matrix.stride, place_.column(chunk), matrix.cols);
    }
  }

  const AddNormBackward<S, B>& args_;
  const Place& place_;
  RowStages stages_;
};

/// Each thread has its columns of all rows of its block, and sums the gradients of their γ and β in
/// registers. kDirect: the kernel of kDirectBackward, for GPUs without clusters.
template <typename S, typename B, int kChunks, bool kFast, bool kDirect>
__global__ __launch_bounds__(
    kDirect ? kDirectBackward.row_threads : kBackward.row_threads,
    kDirect
        ? kDirectBackward.blocks[kOfType<S>]
        : kBackward
              .blocks[kOfType<S>]) void add_norm_backward_kernel(const NormNumbers norm,
                                                                 const AddNormBackward<S, B> args,
                                                                 const RowPlan plan) {
  extern __shared__ uint4 staged[];
  __shared__ SumMemory<double, 2> memory;
  if (kDirect && kHasClusters) return never_launched();
  const Place place(plan);
  memory.prepare(plan);
  meet_cluster(plan);
  const std::size_t rows = args.s.rows;
  const std::size_t features = args.s.cols;
  const std::size_t blocks = gridDim.x / plan.blocks;
  const std::size_t step = blocks * plan.rows;
  Rows<S, B, kChunks, kFast, kFast && !kDirect> inputs(args, place, staged);

  float d_gamma[kChunks][kVector] = {}, d_beta[kChunks][kVector] = {};
  int count = 0;
  const std::size_t first = place.block() * plan.rows;
  inputs.request(first + place.row);
  NormStatistics<float> next{};
  if (rows > 0) next = args.statistics[min(first + place.row, rows - 1)];
  for (std::size_t group = first; group < rows; group += step, ++count) {
    const std::size_t own = group + place.row;
    const bool writes = own < rows;
    const std::size_t r = writes ? own : rows - 1;
    inputs.request(own + step);
    inputs.await();
    const NormStatistics<float> statistics = next;
    next = args.statistics[min(own + step, rows - 1)];
    float of_thread[2] = {};  // Σ g and Σ g·(x − mean)
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const std::size_t col = place.column(c);
      if (col >= features) continue;
      const Chunk<S, B, kFast> chunk(norm, args, statistics, inputs.s(r, c), inputs.dy(r, c), col);
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        of_thread[0] += chunk.g[i];
        of_thread[1] = fmaf(chunk.g[i], chunk.from_mean[i], of_thread[1]);
      }
    }
    double sums[2] = {of_thread[0], of_thread[1]};
    sum_over_row(sums, place, memory, count);
    const RowGradient row(norm, statistics, sums);
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const std::size_t col = place.column(c);
      if (col >= features || !writes) continue;
      const Chunk<S, B, kFast> chunk(norm, args, statistics, inputs.s(r, c), inputs.dy(r, c), col);
      float past[kVector] = {}, skip[kVector], dx[kVector];
      if (!args.d_residual.empty()) inputs.d_residual(r, c).unpack(past);
      load_parameter<kFast>(args.skip.vector, args.skip.constant, col, skip);
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        const float x_hat = normalized(statistics, chunk.from_mean[i]);
        dx[i] = row.dx(chunk.g[i], x_hat);
        if (!args.d_residual.empty()) dx[i] = skip[i] * past[i] + dx[i];
        d_gamma[c][i] = fmaf(chunk.dy[i], x_hat, d_gamma[c][i]);
        d_beta[c][i] += chunk.dy[i];
      }
      store<kFast>(Vector<S>::rounded(dx), args.dx.data + r * args.dx.stride, col, features);
    }
    inputs.release();
  }
  // The workspace holds the sums of γ of all blocks, then those of β.
  float* const partials = args.workspace.data() + place.block() * features;
  float* const exchange = reinterpret_cast<float*>(staged);
  if (!args.d_gamma.empty()) write_block_sums<kFast>(d_gamma, place, exchange, partials, features);
  if (!args.d_beta.empty()) {
    write_block_sums<kFast>(d_beta, place, exchange, partials + blocks * features, features);
  }
}

template <typename S, typename B, bool kFast>
auto kernel_of(int chunks) {
  switch (chunks) {
    case 1:
      return add_norm_backward_kernel<S, B, 1, kFast, false>;
    case 2:
      return add_norm_backward_kernel<S, B, 2, kFast, false>;
    default:
      return add_norm_backward_kernel<S, B, kDirectBackward.chunks, kFast, true>;
  }
}

}  // namespace

template <typename S, typename B>
void launch_add_norm_backward(const NormOptions& options, const AddNormBackward<S, B>& args,
                              const Device& device, bool fast, StreamHandle stream) {
  const RowPlan plan = plan_rows(args.s.cols, kBackward, kDirectBackward, device.clusters);
  const bool direct = is_wider(plan, kBackward);
  const std::size_t blocks =
      striding_blocks(plan, args.s.rows, kBackward, kDirectBackward, kOfType<S>, device.clusters);
  const auto kernel =
      fast ? kernel_of<S, B, true>(plan.chunks) : kernel_of<S, B, false>(plan.chunks);
  // The memory to stage rows, or to exchange sums between the rows of a block.
  const std::size_t of_thread =
      fast ? Rows<S, B, 1, true>::RowStages::kThreadBytes : sizeof(Vector<float>);
  // A block of kDirectBackward has one row and stages nothing. All GPUs of 8.x can stage the rows
  // of the narrower blocks.
  constexpr std::size_t kMost =
      Rows<S, B, kBackward.chunks, true>::RowStages::kThreadBytes * kBackward.row_threads +
      sizeof(SumMemory<double, 2>);
  static_assert(kMost <= 99 << 10);
  const auto shared = [&](int threads) { return of_thread * plan.chunks * threads; };
  const SharedMemory memory{shared(plan.threads * plan.rows), shared(kBackward.row_threads)};
  launch(kernel, plan, blocks, direct ? SharedMemory{} : memory, stream,
         NormNumbers(options, args.s.cols), args, plan);
  const std::size_t features = args.s.cols;
  const float* const partials = args.workspace.data();
  launch_column_sums<2>({{{partials, args.d_gamma}, {partials + blocks * features, args.d_beta}}},
                        blocks, features, static_cast<float>(options.output_scale),
                        args.parameter_gradients, stream);
}

#define ADDNORM_INSTANTIATE(S, B)                                                          \
  template void launch_add_norm_backward(const NormOptions&, const AddNormBackward<S, B>&, \
                                         const Device&, bool, StreamHandle);
ADDNORM_FOR_CUDA_STORAGES(ADDNORM_INSTANTIATE)
#undef ADDNORM_INSTANTIATE

}  // namespace addnorm::kernels::cuda
