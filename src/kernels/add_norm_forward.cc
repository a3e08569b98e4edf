#include "addnorm/layer_norm.h"
#include "addnorm/norm.h"
#include "base/parallel.h"
#include "kernels/add_norm.h"
#include "kernels/aliasing.h"
#include "kernels/channel_norm.h"
#include "kernels/dispatch.h"
#include "kernels/plan.h"
#include "kernels/squash.h"
#include "kernels/storages.h"
#include "kernels/verbose.h"

namespace addnorm::kernels {

/// Computes rows begin … end − 1.
ADDNORM_DECLARE_KERNEL(template <typename S, typename B>
                       void rows_forward(const NormOptions&, const AddNormForward<S, B>&,
                                         const Plan&, std::size_t begin, std::size_t end);)

namespace {

template <typename S, typename B>
std::size_t bytes_of_epilogue(const Epilogue<S, B>& epilogue) {
  const auto& [gate, modulation, quantized, unrounded] = epilogue;
  return bytes_of(gate.z) + bytes_of(modulation.scale) + bytes_of(modulation.shift) +
         bytes_of(quantized.int8) + bytes_of(quantized.float8) + bytes_of(quantized.q8_0) +
         bytes_of(quantized.scales) + bytes_of(unrounded);
}

template <typename S, typename B>
Problem problem_of(const AddNormForward<S, B>& args) {
  const ResidualAdd<S, B>& add = args.add;
  const auto in_place = [&](const auto& out) {
    return same_place(out, add.x) || same_place(out, add.branch);
  };
  const auto new_bytes = [&](const auto& out) { return in_place(out) ? 0 : bytes_of(out); };
  return {.direction = Direction::kForward,
          .stream_bytes = sizeof(S),
          .rows = add.x.rows,
          .features = add.x.cols,
          .bytes = bytes_of(add.x) + bytes_of(add.branch) + new_bytes(args.sum) +
                   new_bytes(args.y) +
                   (args.epilogue.empty() ? 0 : bytes_of_epilogue(args.epilogue)),
          .adds = !add.branch.empty(),
          .plain = is_plain(add),
          .float16 = std::is_same_v<B, Float16>,
          .in_place = in_place(args.sum) || in_place(args.y),
          .aligned = streamable(args.y) && (in_place(args.sum) || streamable(args.sum)),
          .contiguous = add.x.contiguous() && (add.branch.empty() || add.branch.contiguous())};
}

}  // namespace

template <typename S, typename B>
void add_norm_forward(std::string_view where, const NormOptions& options,
                      const AddNormForward<S, B>& args, std::size_t threads) {
  const ThreadCount count(threads);
  check_add_norm_forward(where, options, args);
  if (squashes(options.kind)) return squash_forward(where, options, args);
  if (!normalizes_rows(options.kind)) {
    if constexpr (kHasChannelNorms<S, B>) channel_norm_forward(where, options, args);
    return;
  }
  const std::size_t rows = args.add.x.rows;
  const Problem problem = problem_of(args);
  const Plan plan = plan_call(problem);
  const VerboseCall verbose("add_norm_forward", problem, plan);
  const auto kernel = ADDNORM_KERNEL(S, rows_forward<S, B>);
  parallel_ranges(
      rows, row_grain(args.add.x.cols), plan.rows,
      [&](std::size_t begin, std::size_t end) { kernel(options, args, plan, begin, end); });
}

#define ADDNORM_INSTANTIATE(S, B)                                      \
  template void add_norm_forward(std::string_view, const NormOptions&, \
                                 const AddNormForward<S, B>&, std::size_t);
ADDNORM_FOR_STORAGES(ADDNORM_INSTANTIATE)
#undef ADDNORM_INSTANTIATE

}  // namespace addnorm::kernels

namespace addnorm {

template <typename S, typename B>
void add_norm_forward(const NormOptions& options, const AddNormForward<S, B>& args,
                      std::size_t threads) {
  kernels::add_norm_forward("add_norm_forward", options, args, threads);
}

template <typename T>
void short_calls::forward(const char* name, const NormOptions& options,
                          const AddNormForward<T>& args, std::size_t threads) {
  kernels::add_norm_forward(name, options, args, threads);
}

#define ADDNORM_INSTANTIATE(S, B) \
  template void add_norm_forward(const NormOptions&, const AddNormForward<S, B>&, std::size_t);
ADDNORM_FOR_STORAGES(ADDNORM_INSTANTIATE)
#undef ADDNORM_INSTANTIATE

#define ADDNORM_INSTANTIATE(T)                                                                  \
  template void short_calls::forward(const char*, const NormOptions&, const AddNormForward<T>&, \
                                     std::size_t);
ADDNORM_INSTANTIATE(float)
ADDNORM_INSTANTIATE(double)
ADDNORM_INSTANTIATE(BFloat16)
ADDNORM_INSTANTIATE(Float16)
#undef ADDNORM_INSTANTIATE

}  // namespace addnorm
