#include "addnorm/layer_norm.h"
#include "addnorm/norm.h"
#include "base/parallel.h"
#include "kernels/add_norm.h"
#include "kernels/aliasing.h"
#include "kernels/block_sums.h"
#include "kernels/channel_norm.h"
#include "kernels/dispatch.h"
#include "kernels/epilogue.h"
#include "kernels/plan.h"
#include "kernels/rows_backward.h"
#include "kernels/squash.h"
#include "kernels/storages.h"
#include "kernels/verbose.h"

namespace addnorm::kernels {

namespace {

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

template <typename S, typename B>
void add_norm_backward(std::string_view where, const NormOptions& options,
                       const AddNormBackward<S, B>& args, std::size_t threads) {
  using V = Arithmetic<S>;
  const ThreadCount count(threads);
  const bool has_epilogue = !args.epilogue.empty();
  check_add_norm_backward(where, options, args,
                          has_epilogue ? epilogue_workspace(args.s.rows, args.s.cols,
                                                            args.epilogue.modulation.samples())
                                       : add_norm_workspace(args.s.rows, args.s.cols));
  if (squashes(options.kind)) return squash_backward(where, options, args);
  if (!normalizes_rows(options.kind)) {
    if constexpr (kHasChannelNorms<S, B>) channel_norm_backward(where, options, args);
    return;
  }
  if constexpr (kHasEpilogues) {
    if (has_epilogue) return epilogue_backward(where, options, args);
  }
  const std::size_t rows = args.s.rows;
  const std::size_t cols = args.s.cols;
  const RowBlocks blocks(rows, cols);
  V* const gamma_blocks = args.d_gamma.empty() ? nullptr : args.workspace.data();
  V* const beta_blocks =
      args.d_beta.empty() ? nullptr : args.workspace.data() + blocks.count * cols;
  const Problem problem = problem_of(args);
  const Plan plan = plan_call(problem);
  const VerboseCall verbose("add_norm_backward", problem, plan);
  const auto kernel = ADDNORM_KERNEL(S, rows_backward<S, B>);
  parallel_for(blocks.count, 1, [&](std::size_t b) {
    auto place = [&](V* partials) { return partials == nullptr ? nullptr : partials + b * cols; };
    kernel(options, args, plan, b * blocks.rows, std::min(rows, (b + 1) * blocks.rows),
           GradientMode::kOverwrite, place(gamma_blocks), place(beta_blocks));
  });
  const V factor = static_cast<V>(options.output_scale);
  const GradientMode mode = args.parameter_gradients;
  add_block_sums(gamma_blocks, blocks.count, factor, mode, args.d_gamma);
  add_block_sums(beta_blocks, blocks.count, factor, mode, args.d_beta);
}

#define ADDNORM_INSTANTIATE(S, B)                                       \
  template void add_norm_backward(std::string_view, const NormOptions&, \
                                  const AddNormBackward<S, B>&, std::size_t);
ADDNORM_FOR_STORAGES(ADDNORM_INSTANTIATE)
#undef ADDNORM_INSTANTIATE

}  // namespace addnorm::kernels

namespace addnorm {

std::size_t add_norm_workspace(std::size_t rows, std::size_t features) {
  return 2 * kernels::RowBlocks(rows, features).count * features;
}
std::size_t epilogue_workspace(std::size_t rows, std::size_t features, std::size_t samples) {
  const std::size_t blocks = kernels::RowBlocks(rows, features).count;
  return 2 * (blocks + (samples > 0 ? blocks + samples : 0)) * features;
}

template <typename S, typename B>
void add_norm_backward(const NormOptions& options, const AddNormBackward<S, B>& args,
                       std::size_t threads) {
  kernels::add_norm_backward("add_norm_backward", options, args, threads);
}

template <typename T>
void short_calls::backward(const char* name, const NormOptions& options,
                           const AddNormBackward<T>& args, std::size_t threads) {
  kernels::add_norm_backward(name, options, args, threads);
}

#define ADDNORM_INSTANTIATE(S, B) \
  template void add_norm_backward(const NormOptions&, const AddNormBackward<S, B>&, std::size_t);
ADDNORM_FOR_STORAGES(ADDNORM_INSTANTIATE)
#undef ADDNORM_INSTANTIATE

#define ADDNORM_INSTANTIATE(T)                                                                    \
  template void short_calls::backward(const char*, const NormOptions&, const AddNormBackward<T>&, \
                                      std::size_t);
ADDNORM_INSTANTIATE(float)
ADDNORM_INSTANTIATE(double)
ADDNORM_INSTANTIATE(BFloat16)
ADDNORM_INSTANTIATE(Float16)
#undef ADDNORM_INSTANTIATE

}  // namespace addnorm
