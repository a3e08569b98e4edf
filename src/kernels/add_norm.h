#pragma once

/// What every call of Add & Norm checks, on any processor.

#include <cstddef>
#include <string_view>

#include "addnorm/norm.h"
#include "kernels/check.h"
#include "kernels/placement.h"
#include "kernels/residual_add.h"

namespace addnorm::kernels {

template <typename S, typename B>
void check_add_norm_forward(std::string_view where, const NormOptions& options,
                            const AddNormForward<S, B>& args) {
  const std::size_t rows = args.add.x.rows;
  const std::size_t cols = args.add.x.cols;
  check_kind<S, B>(where, options, args.statistics_from, cols);
  check_residual_add(where, args.add);
  check_optional_shape(where, "sum", args.sum, rows, cols);
  check_shape(where, "y", args.y, rows, cols);
  require(args.sum.empty() || !same_place(args.sum, args.y),
          "{}: sum and y are the same matrix, each needs one of its own", where);
  if (!normalizes_rows(options.kind)) return;
  check_optional_length(where, "gamma", args.gamma, cols);
  check_optional_length(where, "beta", args.beta, cols);
  check_optional_length(where, "statistics", args.statistics, rows);
}

/// `workspace`: the values that the gradients of γ and β need.
template <typename S, typename B>
void check_add_norm_backward(std::string_view where, const NormOptions& options,
                             const AddNormBackward<S, B>& args, std::size_t workspace) {
  const std::size_t rows = args.s.rows;
  const std::size_t cols = args.s.cols;
  check_kind<S, B>(where, options, args.statistics_from, cols);
  check_shape(where, "s", args.s, rows, cols);  // the stride
  check_shape(where, "dy", args.dy, rows, cols);
  check_optional_shape(where, "d_residual", args.d_residual, rows, cols);
  check_shape(where, "dx", args.dx, rows, cols);
  check_optional_length(where, "skip", args.skip.vector, cols);
  if (!normalizes_rows(options.kind)) return;
  check_length(where, "statistics", args.statistics, rows);
  check_optional_length(where, "gamma", args.gamma, cols);
  check_optional_length(where, "d_gamma", args.d_gamma, cols);
  check_optional_length(where, "d_beta", args.d_beta, cols);
  if (!args.d_gamma.empty() || !args.d_beta.empty()) {
    require(args.workspace.size() >= workspace,
            "{}: workspace has {} values, must have at least {}", where, args.workspace.size(),
            workspace);
  }
}

}  // namespace addnorm::kernels
