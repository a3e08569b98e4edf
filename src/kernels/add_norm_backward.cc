#include "addnorm/norm.h"
#include "base/parallel.h"
#include "kernels/check.h"
#include "kernels/dispatch.h"
#include "kernels/placement.h"
#include "kernels/plan.h"
#include "kernels/verbose.h"

#ifndef ADDNORM_KERNELS_ADD_NORM_BACKWARD_CC
#define ADDNORM_KERNELS_ADD_NORM_BACKWARD_CC
namespace addnorm {

/// Rows begin … end − 1. What they add to the gradients of γ and β goes to `d_gamma` and `d_beta`,
/// where these are not null.
template <typename S, typename B>
using BackwardRows = void (*)(const NormOptions&, const AddNormBackward<S, B>&, const Plan&,
                              std::size_t begin, std::size_t end, Arithmetic<S>* d_gamma,
                              Arithmetic<S>* d_beta);

/// out[i] (+)= factor·Σ over blocks of partials[b·cols + i] for i = begin … end − 1.
template <typename V>
struct PartialSums {
  const V* partials;
  std::size_t blocks;
  std::size_t cols;
  V factor;
  V* out;
  bool accumulate;
};

}  // namespace addnorm
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/add_norm_backward.cc"
#include <hwy/foreach_target.h>
//
#include "kernels/backward_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm {
namespace HWY_NAMESPACE {

template <typename S, typename B>
void rows_backward(const NormOptions& options, const AddNormBackward<S, B>& args, const Plan& plan,
                   std::size_t begin, std::size_t end, Arithmetic<S>* d_gamma,
                   Arithmetic<S>* d_beta) {
  const BackwardLoops<S, B> loops(options, args, plan, d_gamma, d_beta);
  loops.run(begin, end);
  loops.finish(d_gamma, d_beta);
  if (plan.stores == Stores::kNonTemporal) hwy::FlushStream();
}

ADDNORM_TABLE(backward_table, BackwardRows, rows_backward)

template <typename V>
void sum_partials(const PartialSums<V>& sums, std::size_t begin, std::size_t end) {
  for_each_pack(end - begin, [&](std::size_t at, auto count) ADDNORM_BODY {
    const std::size_t i = begin + at;
    Pack<V> total = set(V{0});
    for (std::size_t b = 0; b < sums.blocks; ++b) {
      total = total + load(sums.partials + b * sums.cols + i, count);
    }
    total = total * set(sums.factor);
    if (sums.accumulate) total = load(sums.out + i, count) + total;
    store(total, sums.out + i, count);
  });
}

void add_partials(const PartialSums<float>& sums, std::size_t begin, std::size_t end) {
  sum_partials(sums, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace addnorm
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace addnorm {
namespace {

HWY_EXPORT(backward_table);
HWY_EXPORT(add_partials);
ADDNORM_KERNEL_OF(backward_kernel, BackwardRows, backward_table, rows_backward)

/// γ's and β's gradients are summed over rows in blocks, at most this many; each block's sum has a
/// place of its own in the workspace, and the blocks are added in order.
constexpr std::size_t kMaxBlocks = 64;

/// At least 16 rows, and as many as have 8192 values, or 128: of smaller blocks much of the time
/// would go into handing their sums from one core's cache to another's, and longer ones would lose
/// digits.
std::size_t rows_per_block(std::size_t rows, std::size_t cols) {
  const std::size_t even = (rows + kMaxBlocks - 1) / kMaxBlocks;
  const std::size_t enough =
      std::clamp<std::size_t>(8192 / std::max<std::size_t>(1, cols), 16, 128);
  return (std::max(even, enough) + kRowGroup - 1) / kRowGroup * kRowGroup;
}
std::size_t count_blocks(std::size_t rows, std::size_t cols) {
  const std::size_t block = rows_per_block(rows, cols);
  return (rows + block - 1) / block;
}

template <typename S, typename B>
void check_backward(const NormOptions& options, const AddNormBackward<S, B>& args) {
  constexpr const char* kWhere = "add_norm_backward";
  const std::size_t rows = args.s.rows;
  const std::size_t cols = args.s.cols;
  check_row_kind(kWhere, options);
  check_norm_options(kWhere, options, cols);
  check_shape(kWhere, "s", args.s, rows, cols);  // the stride
  check_shape(kWhere, "dy", args.dy, rows, cols);
  check_optional_shape(kWhere, "d_residual", args.d_residual, rows, cols);
  check_shape(kWhere, "dx", args.dx, rows, cols);
  check_length(kWhere, "statistics", args.statistics, rows);
  check_optional_length(kWhere, "gamma", args.gamma, cols);
  check_optional_length(kWhere, "skip", args.skip.vector, cols);
  check_optional_length(kWhere, "d_gamma", args.d_gamma, cols);
  check_optional_length(kWhere, "d_beta", args.d_beta, cols);
  if (!args.d_gamma.empty() || !args.d_beta.empty()) {
    require(args.workspace.size() >= add_norm_workspace(rows, cols),
            "{}: workspace has {} values, must have at least {}", kWhere, args.workspace.size(),
            add_norm_workspace(rows, cols));
  }
}

/// The gradients of γ and β from the sums of the blocks.
template <typename S, typename B, typename V = Arithmetic<S>>
void add_blocks(const NormOptions& options, const AddNormBackward<S, B>& args,
                const V* gamma_blocks, const V* beta_blocks) {
  const std::size_t cols = args.s.cols;
  const std::size_t blocks = count_blocks(args.s.rows, cols);
  const bool accumulate = args.parameter_gradients == GradientMode::kAccumulate;
  const V factor = static_cast<V>(options.output_scale);
  constexpr std::size_t kGrain = 16384;  // values that are worth one thread
  parallel_ranges(cols, 1 + kGrain / (blocks + 1), 16, [&](std::size_t begin, std::size_t end) {
    auto add = [&](const V* partials, std::span<V> gradient) {
      if (gradient.empty()) return;
      const PartialSums<V> sums{partials, blocks, cols, factor, gradient.data(), accumulate};
      if constexpr (std::is_same_v<V, float>) {
        ADDNORM_DISPATCH(add_partials)(sums, begin, end);
      } else {
        HWY_STATIC_DISPATCH(sum_partials)<V>(sums, begin, end);
      }
    };
    add(gamma_blocks, args.d_gamma);
    add(beta_blocks, args.d_beta);
  });
}

template <typename S, typename B>
Problem problem_of(const AddNormBackward<S, B>& args) {
  const bool in_place = same_place(args.dx, args.s) || same_place(args.dx, args.dy) ||
                        same_place(args.dx, args.d_residual);
  const bool adds = !args.d_residual.empty();
  return {.direction = Direction::kBackward,
          .stream_bytes = sizeof(S),
          .rows = args.s.rows,
          .features = args.s.cols,
          .bytes = bytes_of(args.s) + bytes_of(args.dy) + bytes_of(args.d_residual) +
                   (in_place ? 0 : bytes_of(args.dx)),
          .adds = adds,
          .plain = !adds || args.skip.is_one(),
          .float16 = std::is_same_v<B, Float16>,
          .in_place = in_place,
          .aligned = streamable(args.dx),
          .contiguous = args.s.contiguous() && args.dy.contiguous()};
}

}  // namespace

std::size_t add_norm_workspace(std::size_t rows, std::size_t features) {
  return 2 * count_blocks(rows, features) * features;
}

template <typename S, typename B>
void add_norm_backward(const NormOptions& options, const AddNormBackward<S, B>& args,
                       std::size_t threads) {
  using V = Arithmetic<S>;
  const ThreadCount count(threads);
  check_backward(options, args);
  const std::size_t rows = args.s.rows;
  const std::size_t cols = args.s.cols;
  const std::size_t blocks = count_blocks(rows, cols);
  const std::size_t block_rows = rows_per_block(rows, cols);
  V* gamma_blocks = args.d_gamma.empty() ? nullptr : args.workspace.data();
  V* beta_blocks = args.d_beta.empty() ? nullptr : args.workspace.data() + blocks * cols;
  const Problem problem = problem_of(args);
  const Plan plan = plan_call(problem);
  const VerboseCall verbose("add_norm_backward", problem, plan);
  const BackwardRows<S, B> kernel = backward_kernel<S, B>();
  parallel_for(blocks, 1, [&](std::size_t b) {
    auto place = [&](V* partials) { return partials == nullptr ? nullptr : partials + b * cols; };
    kernel(options, args, plan, b * block_rows, std::min(rows, (b + 1) * block_rows),
           place(gamma_blocks), place(beta_blocks));
  });
  add_blocks(options, args, gamma_blocks, beta_blocks);
}

#define ADDNORM_INSTANTIATE(S, B) \
  template void add_norm_backward(const NormOptions&, const AddNormBackward<S, B>&, std::size_t);
ADDNORM_FOR_STORAGES(ADDNORM_INSTANTIATE)
#undef ADDNORM_INSTANTIATE

}  // namespace addnorm
#endif  // HWY_ONCE
