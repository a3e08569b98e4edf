#include "kernels/cuda/lanes.cuh"
#include "kernels/cuda/launch.h"

namespace addnorm::kernels::cuda {
namespace {

/// X′ and R·X′ of a row stay in registers until the row's sums are complete; meanwhile the next row
/// is copied.
template <typename S, typename B, int N, bool kFast, bool kDirect>
__global__ __launch_bounds__(
    kDirect ? kDirectLanes.row_threads : kLanesForward.row_threads,
    kDirect
        ? kDirectLanes.blocks[kOfType<S>]
        : kLanesForward.blocks[kOfType<S>]) void lanes_forward_kernel(const NormNumbers norm,
                                                                      const LanesForward<S, B> args,
                                                                      const RowPlan plan) {
  extern __shared__ uint4 staged[];
  __shared__ SumMemory<double, 2, kDirect ? kDirectWarps : kMostWarps> memory;
  if (!kIsLaunched<kFast, kDirect>) return never_launched();
  const Place place(plan);
  memory.prepare(plan);
  meet_cluster(plan);
  const std::size_t rows = args.x.rows;
  const std::size_t features = args.x.features;
  const std::size_t step = gridDim.x / plan.blocks * plan.rows;
  const std::size_t col = place.column(0);
  const bool inside = col < features;
  const std::size_t in_row = inside ? col : 0;  // threads without columns read column 0
  LaneRows<S, B, N, false, kFast, kFast && !kDirect> inputs(args, {}, {}, col, staged);

  int count = 0;
  const std::size_t first = place.block() * plan.rows;
  inputs.request(first + place.row);
  Mixes<N> mixes(args, min(first + place.row, rows - 1));
  for (std::size_t group = first; group < rows; group += step, ++count) {
    const std::size_t own = group + place.row;
    const bool writes = own < rows;  // else the threads of this row only take part in the barriers
    const std::size_t r = writes ? own : rows - 1;
    inputs.request(own + step);
    inputs.await();
    if (!mixes.of_all_rows) mixes = Mixes<N>(args, r);
    Mixed<S, N> mixed = inputs.mix(mixes, r);
    if (args.norm) {
      const double origin = norm.has_mean ? first_of_read(args, mixes, r) : 0.0F;
      double sums[2] = {};  // of z − origin and of its squares
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        if (kFast ? !inside : col + i >= features) continue;
        const double d = mixed.z[i] - origin;
        sums[0] += d;
        sums[1] = fma(d, d, sums[1]);
      }
      sum_over_row(sums, place, memory, count);
      const NormStatistics<float> statistics = statistics_of(norm, sums[0], sums[1], origin);
      if (writes && place.leads() && !args.statistics.empty()) args.statistics[r] = statistics;
      float gamma[kVector], beta[kVector];
      load_gamma<kFast>(norm, args.gamma, in_row, gamma);
      load_beta<kFast>(norm, args.beta, in_row, beta);
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        const float x_hat = normalized(statistics, from_mean(statistics, mixed.z[i]));
        mixed.z[i] = fmaf(gamma[i], x_hat, beta[i]);
      }
    }
    inputs.release();
    if (!writes || !inside) continue;
    if (!args.sum.empty()) {
#pragma unroll
      for (int p = 0; p < N; ++p) {
        store<kFast>(mixed.made[p], lane_row(args.sum, r, p), col, features);
      }
    }
    if (mixes.reads) {
      store<kFast>(Vector<B>::rounded(mixed.z), lane_row(args.y, r, 0), col, features);
    }
  }
}

template <typename S, typename B, int N>
void launch_lanes_forward(const LanesForward<S, B>& args, const Device& device, bool fast,
                          StreamHandle stream) {
  const RowPlan plan = plan_rows(args.x.features, kLanesForward, kDirectLanes, device.clusters);
  using Rows = LaneRows<S, B, N, false, true>;
  constexpr std::size_t kStaged = Rows::RowStages::kThreadBytes;
  const bool direct = reads_directly(
      device, plan, fast, kStaged * kLanesForward.row_threads + sizeof(SumMemory<double, 2>));
  const auto kernel = direct ? (fast ? lanes_forward_kernel<S, B, N, true, true>
                                     : lanes_forward_kernel<S, B, N, false, true>)
                             : (fast ? lanes_forward_kernel<S, B, N, true, false>
                                     : lanes_forward_kernel<S, B, N, false, false>);
  const auto shared = [&](int threads) { return fast && !direct ? kStaged * threads : 0; };
  launch(
      kernel, plan,
      striding_blocks(plan, args.x.rows, kLanesForward, kDirectLanes, kOfType<S>, device.clusters),
      {shared(plan.threads * plan.rows), shared(kLanesForward.row_threads)}, stream,
      NormNumbers(args.norm.value_or(NormOptions{}), args.x.features), args, plan);
}

}  // namespace

template <typename S, typename B>
void launch_lanes_forward(const LanesForward<S, B>& args, const Device& device, bool fast,
                          StreamHandle stream) {
  if (args.x.lanes == 2) {
    launch_lanes_forward<S, B, 2>(args, device, fast, stream);
  } else {
    launch_lanes_forward<S, B, 4>(args, device, fast, stream);
  }
}

#define ADDNORM_INSTANTIATE(S, B)                                                         \
  template void launch_lanes_forward(const LanesForward<S, B>&, const Device&, bool fast, \
                                     StreamHandle);
ADDNORM_FOR_CUDA_STORAGES(ADDNORM_INSTANTIATE)
#undef ADDNORM_INSTANTIATE

}  // namespace addnorm::kernels::cuda
