#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/lanes.cuh"
#include "kernels/cuda/launch.h"

namespace addnorm::kernels::cuda {
namespace {

/// The number of gradients of mixes: N·N of the carry, N of the write, N of the read.
template <int N>
inline constexpr int kMixNumbers = N* N + 2 * N;

/// Stores gradient n of one row's mixes if each row has its own mixes; else adds it to `totals`.
template <int N, typename S, typename B>
__device__ void write_mix_gradient(const LanesBackward<S, B>& args, std::size_t r, int n, float sum,
                                   float* totals) {
  const auto write = [&](const MatrixView<float>& gradient, int i) {
    if (gradient.empty()) return;
    if (gradient.rows == 1) {
      totals[n] += sum;
    } else {
      float& to = gradient.data[r * gradient.stride + i];
      to = args.parameter_gradients == GradientMode::kOverwrite ? sum : to + sum;
    }
  };
  if (n < N * N) {
    write(args.d_carry, n);
  } else if (n < N * N + N) {
    write(args.d_write, n - N * N);
  } else {
    write(args.d_read, n - N * N - N);
  }
}

/// The parts of the workspace: γ's and β's sums of each block, and the mixes' sums of each block's
/// rows.
struct Partials {
  float *gamma, *beta, *mixes;
};

/// kEachRow: some mixes, and so their gradients, have numbers for each row.
template <typename S, typename B, int N, bool kFast, bool kEachRow, bool kDirect>
__global__ __launch_bounds__(
    kDirect ? kDirectLanes.row_threads : kLanesBackward.row_threads,
    kDirect ? kDirectLanes.blocks[kOfType<S>]
            : kLanesBackward
                  .blocks[kOfType<S>]) void lanes_backward_kernel(const NormNumbers norm,
                                                                  const LanesBackward<S, B> args,
                                                                  const RowPlan plan,
                                                                  const Partials partials) {
  extern __shared__ uint4 staged[];
  constexpr int kWarps = kDirect ? kDirectWarps : kMostWarps;
  __shared__ SumMemory<double, 2, kWarps> memory;
  __shared__ SumMemory<float, kMixNumbers<N>, kWarps> mix_memory;
  if (!kIsLaunched<kFast, kDirect>) return never_launched();
  const LanesForward<S, B>& forward = args.forward;
  const Place place(plan);
  memory.prepare(plan);
  mix_memory.prepare(plan);
  meet_cluster(plan);
  const std::size_t rows = forward.x.rows;
  const std::size_t features = forward.x.features;
  const std::size_t blocks = gridDim.x / plan.blocks;
  const std::size_t step = blocks * plan.rows;
  const std::size_t col = place.column(0);
  const bool inside = col < features;
  const std::size_t in_row = inside ? col : 0;  // threads without columns read column 0
  float* const totals = partials.mixes + (place.block() * plan.rows + place.row) * kMixNumbers<N>;
  LaneRows<S, B, N, true, kFast, kFast && !kDirect> inputs(forward, args.d_sum, args.dy, col,
                                                           staged);

  float d_gamma[1][kVector] = {}, d_beta[1][kVector] = {};
  float d_mixes[kMixNumbers<N>] = {};
  if (partials.mixes != nullptr && place.rank == 0) {
    for (int n = place.thread; n < kMixNumbers<N>; n += plan.threads) totals[n] = 0;
    __syncthreads();
  }
  int count = 0;
  const std::size_t first = place.block() * plan.rows;
  inputs.request(first + place.row);
  if (rows == 0) return;
  const std::size_t first_row = min(first + place.row, rows - 1);
  Mixes<N> mixes(forward, first_row);
  NormStatistics<float> next{};
  if (forward.norm) next = forward.statistics[first_row];
  for (std::size_t group = first; group < rows; group += step, ++count) {
    const std::size_t own = group + place.row;
    const bool writes = own < rows;
    const std::size_t r = writes ? own : rows - 1;
    inputs.request(own + step);
    inputs.await();
    if (!mixes.of_all_rows) mixes = Mixes<N>(forward, r);
    float dz[kVector];
    const Mixed<S, N> mixed = inputs.mix(mixes, r);
    inputs.dy(r, dz);
    if (forward.norm) {
      const NormStatistics<float> statistics = next;
      next = forward.statistics[min(own + step, rows - 1)];
      float gamma[kVector];
      load_gamma<kFast>(norm, forward.gamma, in_row, gamma);
      float of_thread[2] = {};  // Σ g and Σ g·(z − mean)
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        if (kFast ? !inside : col + i >= features) continue;
        const float g = gamma[i] * dz[i];
        of_thread[0] += g;
        of_thread[1] = fmaf(g, from_mean(statistics, mixed.z[i]), of_thread[1]);
      }
      double sums[2] = {of_thread[0], of_thread[1]};
      sum_over_row(sums, place, memory, count);
      const RowGradient row(norm, statistics, sums);
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        const float x_hat = normalized(statistics, from_mean(statistics, mixed.z[i]));
        if (writes) {
          d_gamma[0][i] = fmaf(dz[i], x_hat, d_gamma[0][i]);
          d_beta[0][i] += dz[i];
        }
        dz[i] = row.dx(gamma[i] * dz[i], x_hat);
      }
    }

    // Values outside the row, or of a row of another thread, are 0 and do not count.
    float g[N][kVector], d_branch[kVector] = {}, f[kVector];
    inputs.branch(r, f);
#pragma unroll
    for (int p = 0; p < N; ++p) {
      float made[kVector];
      inputs.d_sum(r, p, g[p]);
      mixed.made[p].unpack(made);
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        const bool counts = writes && (kFast ? inside : col + i < features);
        g[p][i] = counts ? fmaf(mixes.read[p], dz[i], g[p][i]) : 0.0F;
        d_branch[i] = fmaf(mixes.write[p], g[p][i], d_branch[i]);
        if (!counts) continue;
        d_mixes[N * N + p] = fmaf(g[p][i], f[i], d_mixes[N * N + p]);
        d_mixes[N * N + N + p] = fmaf(dz[i], made[i], d_mixes[N * N + N + p]);
      }
    }
#pragma unroll
    for (int j = 0; j < N; ++j) {
      float x[kVector], dx[kVector] = {};
      inputs.x(r, j, x);
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        if (!mixes.carries) {
          dx[i] = g[j][i];
          continue;
        }
        const bool counts = writes && (kFast ? inside : col + i < features);
        if (!counts) x[i] = 0;  // x may hold anything here
#pragma unroll
        for (int p = 0; p < N; ++p) {
          dx[i] = fmaf(mixes.carry[p][j], g[p][i], dx[i]);
          d_mixes[p * N + j] = fmaf(g[p][i], x[i], d_mixes[p * N + j]);
        }
      }
      if (writes && inside)
        store<kFast>(Vector<S>::rounded(dx), lane_row(args.dx, r, j), col, features);
    }
    if (writes && inside && !args.d_branch.empty()) {
      drop<kFast>(forward, r, col, d_branch);
      store<kFast>(Vector<B>::rounded(d_branch), lane_row(args.d_branch, r, 0), col, features);
    }
    if constexpr (kEachRow) {
      total_over_row(d_mixes, place, mix_memory, count, [&](int n, float sum) {
        if (writes) write_mix_gradient<N>(args, r, n, sum, totals);
      });
#pragma unroll
      for (float& sum : d_mixes) sum = 0;
    }
    inputs.release();
  }
  if (!kEachRow && partials.mixes != nullptr) {
    total_over_row(d_mixes, place, mix_memory, 0, [&](int n, float sum) { totals[n] = sum; });
  }
  float* const exchange = reinterpret_cast<float*>(staged);
  const std::size_t place_of_block = place.block() * features;
  if (!args.d_gamma.empty()) {
    write_block_sums<kFast>(d_gamma, place, exchange, partials.gamma + place_of_block, features);
  }
  if (!args.d_beta.empty()) {
    write_block_sums<kFast>(d_beta, place, exchange, partials.beta + place_of_block, features);
  }
}

template <typename S, typename B, int N>
void launch_lanes_backward(const LanesBackward<S, B>& args, const Device& device, bool fast,
                           StreamHandle stream) {
  const std::size_t features = args.forward.x.features;
  const RowPlan plan = plan_rows(features, kLanesBackward, kDirectLanes, device.clusters);
  const std::size_t blocks = striding_blocks(plan, args.forward.x.rows, kLanesBackward,
                                             kDirectLanes, kOfType<S>, device.clusters);
  using Rows = LaneRows<S, B, N, true, true>;
  constexpr std::size_t kStaged = Rows::RowStages::kThreadBytes;
  constexpr std::size_t kSums =
      sizeof(SumMemory<double, 2>) + sizeof(SumMemory<float, kMixNumbers<N>>);
  const bool direct =
      reads_directly(device, plan, fast, kStaged * kLanesBackward.row_threads + kSums);
  const auto any_mix = [&](auto is_one) {
    return is_one(args.d_carry) || is_one(args.d_write) || is_one(args.d_read);
  };
  const auto sums_rows = [](const MatrixView<float>& d) { return !d.empty() && d.rows == 1; };
  const bool of_all_rows = any_mix(sums_rows);
  const bool of_each_row = any_mix([](const auto& d) { return !d.empty() && d.rows > 1; });
  const auto kernel = direct ? (fast ? lanes_backward_kernel<S, B, N, true, true, true>
                                     : lanes_backward_kernel<S, B, N, false, true, true>)
                      : fast ? (of_each_row ? lanes_backward_kernel<S, B, N, true, true, false>
                                            : lanes_backward_kernel<S, B, N, true, false, false>)
                             : lanes_backward_kernel<S, B, N, false, true, false>;
  // The memory to stage rows, or to exchange sums between the rows of a block.
  const std::size_t of_thread = fast && !direct ? kStaged : sizeof(Vector<float>);
  const auto shared = [&](int threads) { return of_thread * threads; };
  const SharedMemory memory{shared(plan.threads * plan.rows), shared(kLanesBackward.row_threads)};
  const bool needs_memory = !is_wider(plan, kLanesBackward);  // a wider block has one row
  float* const workspace = args.workspace.data();
  const Partials partials{workspace, workspace + blocks * features,
                          of_all_rows ? workspace + 2 * blocks * features : nullptr};
  const bool any_row = args.forward.x.rows > 0;  // else all sums are 0
  if (any_row) {
    launch(kernel, plan, blocks, needs_memory ? memory : SharedMemory{}, stream,
           NormNumbers(args.forward.norm.value_or(NormOptions{}), features), args, plan, partials);
  }
  const float factor = args.forward.norm ? static_cast<float>(args.forward.norm->output_scale) : 1;
  const GradientMode mode = args.parameter_gradients;
  launch_column_sums<2>({{{partials.gamma, args.d_gamma}, {partials.beta, args.d_beta}}},
                        any_row ? blocks : 0, features, factor, mode, stream);
  if (!of_all_rows) return;
  const auto sums = [&](const MatrixView<float>& gradient, int first) {
    return ColumnSums(partials.mixes + first,
                      sums_rows(gradient) ? gradient.row(0) : std::span<float>());
  };
  launch_column_sums<3>(
      {{sums(args.d_carry, 0), sums(args.d_write, N * N), sums(args.d_read, N * N + N)}},
      any_row ? blocks * plan.rows : 0, kMixNumbers<N>, 1.0F, mode, stream);
}

}  // namespace

template <typename S, typename B>
void launch_lanes_backward(const LanesBackward<S, B>& args, const Device& device, bool fast,
                           StreamHandle stream) {
  if (args.forward.x.lanes == 2) {
    launch_lanes_backward<S, B, 2>(args, device, fast, stream);
  } else {
    launch_lanes_backward<S, B, 4>(args, device, fast, stream);
  }
}

#define ADDNORM_INSTANTIATE(S, B)                                                           \
  template void launch_lanes_backward(const LanesBackward<S, B>&, const Device&, bool fast, \
                                      StreamHandle);
ADDNORM_FOR_CUDA_STORAGES(ADDNORM_INSTANTIATE)
#undef ADDNORM_INSTANTIATE

}  // namespace addnorm::kernels::cuda
