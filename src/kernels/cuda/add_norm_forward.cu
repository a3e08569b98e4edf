#include "kernels/cuda/launch.h"
#include "kernels/cuda/row.cuh"

namespace addnorm::kernels::cuda {
namespace {

/// A row stays in registers from the residual sum to y.
template <typename S, typename B, int kChunks, bool kFast>
__global__ __launch_bounds__(kForward.row_threads) void add_norm_forward_kernel(
    const NormNumbers norm, const AddNormForward<S, B> args, const RowPlan plan) {
  __shared__ SumMemory<double, 2> memory;
  const Place place(plan);
  memory.prepare(plan);
  const std::size_t rows = args.y.rows;
  const std::size_t features = args.y.cols;
  const std::size_t own = place.block() * plan.rows + place.row;
  const bool writes = own < rows;  // else the threads of this row only take part in the barriers
  const std::size_t r = writes ? own : rows - 1;

  Vector<S> s[kChunks];
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    if (place.column(c) < features) s[c] = residual_sum<kFast>(args.add, r, place.column(c));
  }
  const double origin = norm.has_mean ? first_of_sum<kFast>(args.add, r) : 0.0F;
  double sums[2] = {};  // of s − origin, and of its squares
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    if (place.column(c) >= features) continue;
    float values[kVector];
    s[c].unpack(values);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      if (!kFast && place.column(c) + i >= features) continue;
      const double d = values[i] - origin;
      sums[0] += d;
      sums[1] = fma(d, d, sums[1]);
    }
  }
  meet_cluster(plan);
  sum_over_row(sums, place, memory, 0);
  const NormStatistics<float> statistics = statistics_of(norm, sums[0], sums[1], origin);
  if (!writes) return;
  if (place.leads() && !args.statistics.empty()) args.statistics[r] = statistics;
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const std::size_t col = place.column(c);
    if (col >= features) continue;
    // The store must follow the sums, because all threads of a row read its first value.
    if (!args.sum.empty()) store<kFast>(s[c], args.sum.data + r * args.sum.stride, col, features);
    float values[kVector], gamma[kVector], beta[kVector];
    s[c].unpack(values);
    load_gamma<kFast>(norm, args.gamma, col, gamma);
    load_beta<kFast>(norm, args.beta, col, beta);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      const float x_hat = normalized(statistics, from_mean(statistics, values[i]));
      values[i] = fmaf(gamma[i], x_hat, beta[i]);
    }
    store<kFast>(Vector<B>::rounded(values), args.y.data + r * args.y.stride, col, features);
  }
}

template <typename S, typename B, bool kFast>
auto kernel_of(int chunks) {
  switch (chunks) {
    case 1:
      return add_norm_forward_kernel<S, B, 1, kFast>;
    case 2:
      return add_norm_forward_kernel<S, B, 2, kFast>;
    default:
      return add_norm_forward_kernel<S, B, 4, kFast>;
  }
}

}  // namespace

template <typename S, typename B>
void launch_add_norm_forward(const NormOptions& options, const AddNormForward<S, B>& args,
                             const RowPlan& plan, bool fast, StreamHandle stream) {
  const auto kernel =
      fast ? kernel_of<S, B, true>(plan.chunks) : kernel_of<S, B, false>(plan.chunks);
  const std::size_t groups = (args.y.rows + plan.rows - 1) / plan.rows;
  launch(kernel, plan, groups, {}, stream, NormNumbers(options, args.y.cols), args, plan);
}

bool has_code(const Device& device) {
  cudaFuncAttributes attributes{};
  const auto kernel = add_norm_forward_kernel<float, float, 1, true>;
  const bool found = cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess;
  if (!found) cudaGetLastError();  // it does not concern later calls
  // Code for GPUs without clusters is not for GPUs with clusters, although the driver could
  // compile its PTX for them.
  return found && (attributes.ptxVersion >= 90) == device.clusters;
}

#define ADDNORM_INSTANTIATE(S, B)                                                        \
  template void launch_add_norm_forward(const NormOptions&, const AddNormForward<S, B>&, \
                                        const RowPlan&, bool, StreamHandle);
ADDNORM_FOR_CUDA_STORAGES(ADDNORM_INSTANTIATE)
#undef ADDNORM_INSTANTIATE

}  // namespace addnorm::kernels::cuda
