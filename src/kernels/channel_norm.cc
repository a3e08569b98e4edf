#include "kernels/channel_norm.h"

#include "base/parallel.h"
#include "kernels/argument_memory.h"
#include "kernels/check.h"
#include "kernels/column_sums.h"
#include "kernels/dispatch.h"
#include "kernels/residual_add.h"
#include "kernels/squash.h"
#include "kernels/statistics.h"

/// BatchNorm, InstanceNorm and GroupNorm as norms of rows. Values that are normalized together are
/// contiguous in (N, C, S) for instance and group norms. For batch norm they become contiguous when
/// the tensor is transposed to (C, N, S). γ and β are constant over runs of such a row.

namespace addnorm::kernels {

ADDNORM_DECLARE_KERNEL(template <typename T>
                       void normalize_set(const SetForward<T>&, std::size_t row, const T* x, T* y);)
/// g is memory for γ·dy.
ADDNORM_DECLARE_KERNEL(template <typename T> void differentiate_set(const SetBackward<T>&,
                                                                    std::size_t row, const T* x,
                                                                    const T* dy, T* g, T* dx);)

namespace {

TensorShape shape_of(std::string_view where, std::size_t rows, std::size_t features,
                     std::size_t positions) {
  require(positions > 0 && features % positions == 0,
          "{}: positions is {}, must divide the {} values of a row", where, positions, features);
  return {rows, features / positions, positions};
}

Sets sets_of(std::string_view where, const NormOptions& options, const TensorShape& x) {
  switch (options.kind) {
    case NormKind::kBatch:
      return {x.channels, 1, x.samples * x.positions, x.channels};
    case NormKind::kInstance:
      return {x.samples * x.channels, 1, x.positions, x.channels};
    default:
      require(options.groups > 0 && x.channels % options.groups == 0,
              "{}: there are {} groups, they must divide the {} channels", where, options.groups,
              x.channels);
      return {x.samples * options.groups, x.channels / options.groups, x.positions, options.groups};
  }
}

/// (A, B, S) → (B, A, S).
template <typename T>
void transpose(const T* from, std::size_t a, std::size_t b, std::size_t s, T* to) {
  constexpr std::size_t kTile = 16;
  parallel_for((b + kTile - 1) / kTile, 1 + 16384 / (kTile * a * s + 1), [&](std::size_t tile) {
    for (std::size_t i = 0; i < a; ++i) {
      for (std::size_t j = tile * kTile; j < std::min(b, (tile + 1) * kTile); ++j) {
        std::copy_n(from + (i * b + j) * s, s, to + (j * a + i) * s);
      }
    }
  });
}

template <typename T>
void check_contiguous(std::string_view where, std::string_view name, const MatrixView<T>& matrix) {
  require(matrix.empty() || matrix.contiguous(),
          "{}: the rows of {} stand {} values apart, must be without gaps for a norm over channels",
          where, name, matrix.stride);
}

/// Checks the arguments that forward and backward share.
template <typename Args>
void check_channels(std::string_view where, const NormOptions& options, const Args& args,
                    const TensorShape& shape, const Sets& sets, std::size_t workspace) {
  const bool given = args.statistics_from == StatisticsFrom::kGiven;
  // With given statistics a set may have any number of values.
  if (sets.rows > 0) check_norm_options(where, options, given ? 2 : sets.cols());
  check_optional_length(where, "gamma", args.gamma, shape.channels);
  check_length(where, "statistics", args.statistics, sets.rows);
  require(args.workspace.size() >= workspace, "{}: workspace has {} values, must have at least {}",
          where, args.workspace.size(), workspace);
}

/// Returns s, which is x itself if nothing is added to it.
template <typename T>
MatrixView<const T> residual_sum(const AddNormForward<T>& args) {
  if (args.sum.empty()) return args.add.x;
  residual_add<T>(args.add, args.sum);
  return args.sum;
}

}  // namespace

template <typename T>
void channel_norm_forward(std::string_view where, const NormOptions& options,
                          const AddNormForward<T>& args) {
  const std::size_t rows = args.add.x.rows;
  const std::size_t cols = args.add.x.cols;
  const TensorShape shape = shape_of(where, rows, cols, args.positions);
  const Sets sets = sets_of(where, options, shape);
  const bool transposed = options.kind == NormKind::kBatch;
  check_channels(where, options, args, shape, sets, transposed ? shape.size() : 0);
  check_optional_length(where, "beta", args.beta, shape.channels);
  require(!args.sum.empty() || (args.add.branch.empty() && args.add.skip.is_one()),
          "{}: sum is absent; norms over channels need one for what they normalize", where);
  if (args.sum.empty()) check_contiguous(where, "x", args.add.x);
  check_contiguous(where, "sum", args.sum);
  check_contiguous(where, "y", args.y);

  const T* s = residual_sum(args).data;
  T* y = args.y.data;
  if (transposed) {
    transpose(s, rows, shape.channels, shape.positions, args.workspace.data());
    s = y = args.workspace.data();
  }
  const auto kernel = ADDNORM_KERNEL(T, normalize_set<T>);
  const SetForward<T> job{options, args, sets};
  parallel_for(sets.rows, row_grain(sets.cols()),
               [&](std::size_t r) { kernel(job, r, s + r * sets.cols(), y + r * sets.cols()); });
  if (transposed) {
    transpose(static_cast<const T*>(y), shape.channels, rows, shape.positions, args.y.data);
  }
}

namespace {

template <typename T>
void add_parts(const AddNormBackward<T>& args, T output_scale, const MatrixView<T>& parts,
               std::span<T> gradient) {
  if (gradient.empty()) return;
  if (args.parameter_gradients == GradientMode::kOverwrite) std::ranges::fill(gradient, T{0});
  add_column_sums<T>(parts.rows, parts.cols, gradient,
                     [&](std::size_t n, std::size_t c) { return output_scale * parts(n, c); });
}

}  // namespace

template <typename T>
void channel_norm_backward(std::string_view where, const NormOptions& options,
                           const AddNormBackward<T>& args) {
  const std::size_t rows = args.s.rows;
  const TensorShape shape = shape_of(where, rows, args.s.cols, args.positions);
  const Sets sets = sets_of(where, options, shape);
  check_channels(where, options, args, shape, sets,
                 norm_workspace(options, rows, args.s.cols, args.positions));
  check_optional_length(where, "d_gamma", args.d_gamma, shape.channels);
  check_optional_length(where, "d_beta", args.d_beta, shape.channels);
  check_contiguous(where, "s", args.s);
  check_contiguous(where, "dy", args.dy);
  if (args.d_residual.empty()) check_contiguous(where, "dx", args.dx);

  const bool transposed = options.kind == NormKind::kBatch;
  T* g = args.workspace.data();
  // If a residual gradient is added, dx may overlap it, so the norm's gradient goes to separate
  // memory.
  const MatrixView<T> through_norm =
      args.d_residual.empty() ? args.dx : MatrixView<T>(g, rows, args.s.cols);
  const T* s = args.s.data;
  const T* dy = args.dy.data;
  T* dx = through_norm.data;
  if (transposed) {
    T* s_copy = g;
    T* dy_copy = s_copy + shape.size();
    transpose(s, rows, shape.channels, shape.positions, s_copy);
    transpose(dy, rows, shape.channels, shape.positions, dy_copy);
    s = s_copy;
    dy = g = dx = dy_copy;
  }
  const auto kernel = ADDNORM_KERNEL(T, differentiate_set<T>);
  const SetBackward<T> job{options, args, sets};
  parallel_for(sets.rows, row_grain(sets.cols()), [&](std::size_t r) {
    const std::size_t at = r * sets.cols();
    kernel(job, r, s + at, dy + at, g + at, dx + at);
  });
  const ParameterParts<T> parts = parameter_parts(args, sets);
  const T output_scale = static_cast<T>(options.output_scale);
  add_parts(args, output_scale, parts.gamma, args.d_gamma);
  add_parts(args, output_scale, parts.beta, args.d_beta);
  if (transposed) {
    transpose(static_cast<const T*>(dx), shape.channels, rows, shape.positions, through_norm.data);
  }
  if (args.d_residual.empty()) return;
  residual_add<T>({.x = args.d_residual, .branch = through_norm, .skip = args.skip}, args.dx);
}

std::size_t count_sets(std::string_view where, const NormOptions& options, std::size_t rows,
                       std::size_t features, std::size_t positions) {
  if (normalizes_rows(options.kind)) return rows;
  if (squashes(options.kind)) return 0;
  return sets_of(where, options, shape_of(where, rows, features, positions)).rows;
}

template void channel_norm_forward(std::string_view, const NormOptions&,
                                   const AddNormForward<float>&);
template void channel_norm_forward(std::string_view, const NormOptions&,
                                   const AddNormForward<double>&);
template void channel_norm_backward(std::string_view, const NormOptions&,
                                    const AddNormBackward<float>&);
template void channel_norm_backward(std::string_view, const NormOptions&,
                                    const AddNormBackward<double>&);

}  // namespace addnorm::kernels

namespace addnorm {

std::size_t norm_sets(const NormOptions& options, std::size_t rows, std::size_t features,
                      std::size_t positions) {
  return kernels::count_sets("norm_sets", options, rows, features, positions);
}

std::size_t norm_workspace(const NormOptions& options, std::size_t rows, std::size_t features,
                           std::size_t positions) {
  if (normalizes_rows(options.kind)) return add_norm_workspace(rows, features);
  if (squashes(options.kind)) return kernels::squash_workspace(rows, features);
  const kernels::TensorShape shape = kernels::shape_of("norm_workspace", rows, features, positions);
  const kernels::Sets sets = kernels::sets_of("norm_workspace", options, shape);
  const std::size_t copies = options.kind == NormKind::kBatch ? 2 : 1;
  return copies * shape.size() + 2 * sets.rows * sets.runs;
}

template <typename T>
void update_running_statistics(const NormOptions& options, std::size_t count,
                               std::span<const NormStatistics<T>> batch,
                               const RunningStatistics<T>& running) {
  require(count > 1,
          "update_running_statistics: the batch has {} values for each channel, at least 2 are "
          "needed",
          count);
  kernels::check_length("update_running_statistics", "running mean", running.mean, batch.size());
  kernels::check_length("update_running_statistics", "running variance", running.variance,
                        batch.size());
  kernels::ArgumentMemory memory("update_running_statistics");
  memory.read("statistics", batch);
  memory.write("mean", running.mean);
  memory.write("variance", running.variance);
  const auto n = static_cast<T>(count);
  const T divisor = kernels::variance_divisor<T>(options, count);
  for (std::size_t c = 0; c < batch.size(); ++c) {
    const T scale = batch[c].scale;
    const T unbiased = batch[c].variance * (divisor / (n - 1)) / scale / scale;
    running.mean[c] += running.momentum * (batch[c].mean() - running.mean[c]);
    running.variance[c] += running.momentum * (unbiased - running.variance[c]);
  }
}

template <typename T>
void running_to_norm_statistics(const NormOptions& options, const RunningStatistics<T>& running,
                                std::span<NormStatistics<T>> statistics) {
  kernels::check_length("running_to_norm_statistics", "statistics", statistics,
                        running.mean.size());
  kernels::check_length("running_to_norm_statistics", "running variance", running.variance,
                        running.mean.size());
  kernels::ArgumentMemory memory("running_to_norm_statistics");
  memory.read("mean", running.mean);
  memory.read("variance", running.variance);
  memory.write("statistics", statistics);
  for (std::size_t c = 0; c < statistics.size(); ++c) {
    statistics[c] = {.mean_hi = running.mean[c]};
    kernels::set_deviation(options, running.variance[c], statistics[c]);
  }
}

template void update_running_statistics(const NormOptions&, std::size_t,
                                        std::span<const NormStatistics<float>>,
                                        const RunningStatistics<float>&);
template void running_to_norm_statistics(const NormOptions&, const RunningStatistics<float>&,
                                         std::span<NormStatistics<float>>);
template void update_running_statistics(const NormOptions&, std::size_t,
                                        std::span<const NormStatistics<double>>,
                                        const RunningStatistics<double>&);
template void running_to_norm_statistics(const NormOptions&, const RunningStatistics<double>&,
                                         std::span<NormStatistics<double>>);

}  // namespace addnorm
