#include "kernels/squash.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/parallel.h"
#include "kernels/block_sums.h"
#include "kernels/check.h"
#include "kernels/column_sums.h"
#include "kernels/dispatch.h"
#include "kernels/storages.h"

namespace addnorm::kernels {

/// Both compute rows begin … end − 1.
ADDNORM_DECLARE_KERNEL(template <typename S, typename B>
                       void squash_rows_forward(const NormOptions&, const AddNormForward<S, B>&,
                                                const MatrixView<const S>& s, std::size_t begin,
                                                std::size_t end);)
ADDNORM_DECLARE_KERNEL(template <typename S, typename B>
                       void squash_rows_backward(const NormOptions&, const AddNormBackward<S, B>&,
                                                 const SquashSums<Arithmetic<S>>&,
                                                 std::size_t begin, std::size_t end);)

namespace {

/// Checks the arguments that forward and backward share.
template <typename Args>
void check_squash(std::string_view where, const NormOptions& options, const Args& args,
                  std::size_t cols) {
  require(std::isfinite(options.output_scale), "{}: output_scale is {}, must be finite", where,
          options.output_scale);
  require(std::isfinite(options.alpha), "{}: alpha is {}, must be finite", where, options.alpha);
  check_optional_length(where, "gamma", args.gamma, cols);
  check_optional_length(where, "alpha", args.alpha, 1);
  check_optional_length(where, "shift", args.shift, 1);
  check_length(where, "statistics", args.statistics, 0);
}

}  // namespace

template <typename S, typename B>
void squash_forward(std::string_view where, const NormOptions& options,
                    const AddNormForward<S, B>& args) {
  const std::size_t cols = args.add.x.cols;
  check_squash(where, options, args, cols);
  check_optional_length(where, "beta", args.beta, cols);
  const bool sums = !args.add.branch.empty() || !args.add.skip.is_one();
  require(!sums || !args.sum.empty() || args.add.x.rows == 0,
          "{}: sum is absent; dyt and derf need one for what they squash", where);
  MatrixView<const S> s = args.add.x;
  if (!args.sum.empty()) {
    residual_add<S, B>(args.add, args.sum);
    s = args.sum;
  }
  const auto kernel = ADDNORM_KERNEL(S, squash_rows_forward<S, B>);
  parallel_ranges(s.rows, row_grain(cols), 1, [&](std::size_t begin, std::size_t end) {
    kernel(options, args, s, begin, end);
  });
}

template <typename S, typename B>
void squash_backward(std::string_view where, const NormOptions& options,
                     const AddNormBackward<S, B>& args) {
  using V = Arithmetic<S>;
  const std::size_t rows = args.s.rows;
  const std::size_t cols = args.s.cols;
  check_squash(where, options, args, cols);
  check_optional_length(where, "d_gamma", args.d_gamma, cols);
  check_optional_length(where, "d_beta", args.d_beta, cols);
  check_optional_length(where, "d_alpha", args.d_alpha, 1);
  check_optional_length(where, "d_shift", args.d_shift, 1);
  const std::size_t needed = squash_workspace(rows, cols);
  require(args.workspace.size() >= needed, "{}: workspace has {} values, must have at least {}",
          where, args.workspace.size(), needed);

  const RowBlocks blocks(rows, cols);
  const std::size_t size = blocks.count * cols;
  V* const sums = args.workspace.data();
  std::fill_n(sums, needed, V{0});
  const auto kernel = ADDNORM_KERNEL(S, squash_rows_backward<S, B>);
  parallel_for(blocks.count, 1, [&](std::size_t b) {
    V* const here = sums + b * cols;
    kernel(options, args, {here, here + size, here + 2 * size, here + 3 * size}, b * blocks.rows,
           std::min(rows, (b + 1) * blocks.rows));
  });

  const GradientMode mode = args.parameter_gradients;
  const V factor = static_cast<V>(options.output_scale);
  add_block_sums(sums, blocks.count, factor, mode, args.d_gamma);
  add_block_sums(sums + size, blocks.count, factor, mode, args.d_beta);
  const auto add_all = [&](const V* values, std::span<V> gradient) {
    if (gradient.empty()) return;
    V total = 0;
    add_column_sums<V>(blocks.count, cols, std::span(&total, 1),
                       [&](std::size_t b, std::size_t i) { return values[b * cols + i]; });
    gradient[0] = mode == GradientMode::kOverwrite ? total : gradient[0] + total;
  };
  add_all(sums + 2 * size, args.d_alpha);
  add_all(sums + 3 * size, args.d_shift);
}

std::size_t squash_workspace(std::size_t rows, std::size_t features) {
  return 4 * RowBlocks(rows, features).count * features;
}

#define ADDNORM_INSTANTIATE(S, B)                                                                  \
  template void squash_forward(std::string_view, const NormOptions&, const AddNormForward<S, B>&); \
  template void squash_backward(std::string_view, const NormOptions&, const AddNormBackward<S, B>&);
ADDNORM_FOR_STORAGES(ADDNORM_INSTANTIATE)
#undef ADDNORM_INSTANTIATE

}  // namespace addnorm::kernels
