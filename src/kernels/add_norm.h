#pragma once

/// Add & Norm with the caller's name in its errors, and the argument checks that the CPU's and the
/// GPU's kernels share.

#include <cstddef>
#include <string_view>

#include "addnorm/norm.h"
#include "kernels/argument_memory.h"
#include "kernels/check.h"
#include "kernels/epilogue.h"
#include "kernels/residual_add.h"

namespace addnorm::kernels {

/// Runs add_norm_forward(); errors begin with `where`.
template <typename S, typename B>
void add_norm_forward(std::string_view where, const NormOptions& options,
                      const AddNormForward<S, B>& args, std::size_t threads);
/// Runs add_norm_backward(); errors begin with `where`.
template <typename S, typename B>
void add_norm_backward(std::string_view where, const NormOptions& options,
                       const AddNormBackward<S, B>& args, std::size_t threads);

/// Throws an Error if the memory of the arguments overlaps.
template <typename S, typename B>
void check_memory(std::string_view where, const AddNormForward<S, B>& args) {
  ArgumentMemory memory(where);
  const auto inputs = read_inputs(args.add, memory);
  memory.read("gamma", args.gamma);
  memory.read("beta", args.beta);
  memory.read("alpha", args.alpha);
  memory.read("shift", args.shift);
  const bool has_epilogue = !is_unset(args.epilogue);
  if (has_epilogue) read_inputs(args.epilogue, memory);
  memory.write("sum", args.sum, inputs);
  memory.write("y", args.y, inputs);
  memory.write("statistics", args.statistics);
  memory.write("workspace", args.workspace);
  if (has_epilogue) write_outputs(args.epilogue, memory);
}
template <typename S, typename B>
void check_memory(std::string_view where, const AddNormBackward<S, B>& args) {
  ArgumentMemory memory(where);
  const auto dy = memory.read("dy", args.dy);
  const auto inputs = memory.read("s", args.s) | dy | memory.read("d_residual", args.d_residual);
  memory.read("statistics", args.statistics);
  memory.read("gamma", args.gamma);
  memory.read("alpha", args.alpha);
  memory.read("shift", args.shift);
  memory.read("skip", args.skip.vector);
  const bool has_epilogue = !is_unset(args.epilogue);
  ArgumentMemory::Set z = 0;
  if (has_epilogue) {
    memory.read("epilogue.beta", args.epilogue.beta);
    z = read_inputs(args.epilogue, memory);
  }
  memory.write("dx", args.dx, inputs);
  memory.write("d_gamma", args.d_gamma);
  memory.write("d_beta", args.d_beta);
  memory.write("d_alpha", args.d_alpha);
  memory.write("d_shift", args.d_shift);
  memory.write("workspace", args.workspace);
  if (!has_epilogue) return;
  memory.write("epilogue.dz", args.epilogue.dz, z | dy);
  memory.write("epilogue.d_scale", args.epilogue.d_scale);
  memory.write("epilogue.d_shift", args.epilogue.d_shift);
}

template <typename S, typename B>
void check_add_norm_forward(std::string_view where, const NormOptions& options,
                            const AddNormForward<S, B>& args) {
  const std::size_t rows = args.add.x.rows;
  const std::size_t cols = args.add.x.cols;
  check_kind<S, B>(where, options, args.statistics_from, cols);
  check_residual_add(where, args.add);
  check_optional_shape(where, "sum", args.sum, rows, cols);
  if (!args.epilogue.has_output() || !args.y.empty()) check_shape(where, "y", args.y, rows, cols);
  if (!is_unset(args.epilogue)) check_epilogue(where, options, args.epilogue, rows, cols);
  check_memory(where, args);
  if (!normalizes_rows(options.kind)) return;
  check_optional_length(where, "gamma", args.gamma, cols);
  check_optional_length(where, "beta", args.beta, cols);
  check_optional_length(where, "statistics", args.statistics, rows);
}

/// `workspace` is the number of values that the gradients of γ, β and a modulation need.
template <typename S, typename B>
void check_add_norm_backward(std::string_view where, const NormOptions& options,
                             const AddNormBackward<S, B>& args, std::size_t workspace) {
  const std::size_t rows = args.s.rows;
  const std::size_t cols = args.s.cols;
  check_kind<S, B>(where, options, args.statistics_from, cols);
  check_shape(where, "s", args.s, rows, cols);  // checks the stride
  check_shape(where, "dy", args.dy, rows, cols);
  check_optional_shape(where, "d_residual", args.d_residual, rows, cols);
  check_shape(where, "dx", args.dx, rows, cols);
  check_optional_length(where, "skip", args.skip.vector, cols);
  if (!is_unset(args.epilogue)) check_epilogue(where, options, args.epilogue, rows, cols);
  check_memory(where, args);
  if (!normalizes_rows(options.kind)) return;
  check_length(where, "statistics", args.statistics, rows);
  check_optional_length(where, "gamma", args.gamma, cols);
  check_optional_length(where, "d_gamma", args.d_gamma, cols);
  check_optional_length(where, "d_beta", args.d_beta, cols);
  const EpilogueBackward<S, B>& epilogue = args.epilogue;
  if (!args.d_gamma.empty() || !args.d_beta.empty() || !epilogue.d_scale.empty() ||
      !epilogue.d_shift.empty()) {
    require(args.workspace.size() >= workspace,
            "{}: workspace has {} values, must have at least {}", where, args.workspace.size(),
            workspace);
  }
}

}  // namespace addnorm::kernels
