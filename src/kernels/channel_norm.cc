#include "addnorm/norm.h"
#include "base/parallel.h"
#include "kernels/check.h"
#include "kernels/column_sums.h"
#include "kernels/row.h"

/// BatchNorm, InstanceNorm and GroupNorm as norms of rows. A set of values that is normalized
/// together lies contiguous in (N, C, S) for instance and group; for batch it does so once the
/// tensor is transposed to (C, N, S). γ and β are constant over runs of such a row.

namespace addnorm {
namespace {

struct Sets {
  std::size_t rows = 0;        ///< sets: each has one mean and one deviation
  std::size_t runs = 0;        ///< channels of one set
  std::size_t run_length = 0;  ///< values of one channel in one set
  std::size_t period = 0;      ///< rows r and r + period belong to the same channels

  std::size_t cols() const { return runs * run_length; }
  std::size_t channel(std::size_t r, std::size_t run) const { return (r % period) * runs + run; }
};

template <typename T>
Sets sets_of(const NormOptions& options, const TensorView<T>& x) {
  switch (options.kind) {
    case NormKind::kBatch:
      return {x.channels, 1, x.samples * x.positions, x.channels};
    case NormKind::kInstance:
      return {x.samples * x.channels, 1, x.positions, x.channels};
    case NormKind::kGroup:
      require(options.groups > 0 && x.channels % options.groups == 0,
              "channel_norm: there are {} groups, they must divide the {} channels", options.groups,
              x.channels);
      return {x.samples * options.groups, x.channels / options.groups, x.positions, options.groups};
    default:
      fail(
          "channel_norm: the kind must be kBatch, kInstance or kGroup; kLayer and kRms are "
          "add_norm_forward's");
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

enum class StatisticsFrom { kData, kGiven };

template <typename T>
void check_tensor(std::string_view where, std::string_view name, const TensorView<T>& tensor,
                  const TensorView<const T>& x) {
  require(tensor.samples == x.samples && tensor.channels == x.channels &&
              tensor.positions == x.positions,
          "{}: {} is {} × {} × {}, must be {} × {} × {} as x", where, name, tensor.samples,
          tensor.channels, tensor.positions, x.samples, x.channels, x.positions);
}

/// What forward and backward have in common.
template <typename Args>
void check_channels(std::string_view where, const NormOptions& options, const Args& args,
                    const Sets& sets, StatisticsFrom from) {
  // Given statistics do not mind how many values there are.
  if (sets.rows > 0) {
    check_norm_options(where, options, from == StatisticsFrom::kData ? sets.cols() : 2);
  }
  check_optional_length(where, "gamma", args.gamma, args.x.channels);
  check_length(where, "statistics", args.statistics, sets.rows);
  require(args.workspace.size() >= channel_norm_workspace(options, args.x),
          "{}: workspace has {} values, must have {}", where, args.workspace.size(),
          channel_norm_workspace(options, args.x));
}

template <typename T>
T gamma_of(const NormOptions& options, std::span<const T> gamma, std::size_t channel) {
  return gamma.empty() ? static_cast<T>(options.output_scale)
                       : row::effective_gamma(options, gamma[channel]);
}

/// y = γ·x̂ + β of row r, with the statistics that stand in args.
template <typename T>
void normalize_row(const NormOptions& options, const ChannelNormForward<T>& args, const Sets& sets,
                   std::size_t r, const T* x, T* y) {
  const NormStatistics<T>& s = args.statistics[r];
  for (std::size_t run = 0; run < sets.runs; ++run) {
    const std::size_t channel = sets.channel(r, run);
    const T gamma = gamma_of(options, args.gamma, channel);
    const T beta =
        args.beta.empty() ? T{0} : args.beta[channel] * static_cast<T>(options.output_scale);
    const std::size_t begin = run * sets.run_length;
    for (std::size_t i = begin; i < begin + sets.run_length; ++i) {
      y[i] = row::normalized(s, x[i]) * gamma + beta;
    }
  }
}

template <typename T>
void forward(const NormOptions& options, const ChannelNormForward<T>& args, StatisticsFrom from) {
  const Sets sets = sets_of(options, args.x);
  check_channels("channel_norm_forward", options, args, sets, from);
  check_tensor("channel_norm_forward", "y", args.y, args.x);
  check_optional_length("channel_norm_forward", "beta", args.beta, args.x.channels);
  const bool transposed = options.kind == NormKind::kBatch;
  const T* x = args.x.data;
  T* y = args.y.data;
  if (transposed) {
    transpose(x, args.x.samples, args.x.channels, args.x.positions, args.workspace.data());
    x = y = args.workspace.data();
  }
  parallel_for(sets.rows, row_grain(sets.cols()), [&](std::size_t r) {
    const T* row = x + r * sets.cols();
    if (from == StatisticsFrom::kData) {
      args.statistics[r] = row::statistics(options, row, sets.cols());
    }
    normalize_row(options, args, sets, r, row, y + r * sets.cols());
  });
  if (transposed) {
    transpose(static_cast<const T*>(y), args.x.channels, args.x.samples, args.x.positions,
              args.y.data);
  }
}

/// What each row adds to the gradients of its channels' γ and β: samples × channels each, as row r
/// and its run lie at r·runs + run.
template <typename T>
struct ParameterParts {
  MatrixView<T> gamma;
  MatrixView<T> beta;
};

template <typename T>
ParameterParts<T> parameter_parts(const ChannelNormBackward<T>& args, const Sets& sets) {
  const std::size_t channels = args.x.channels;
  const std::size_t samples = channels == 0 ? 0 : sets.rows * sets.runs / channels;
  T* end = args.workspace.data() + args.workspace.size();
  return {{end - 2 * samples * channels, samples, channels},
          {end - samples * channels, samples, channels}};
}

/// dx of one row, and its parts of the gradients of γ and β.
template <typename T>
void backward_row(const NormOptions& options, const ChannelNormBackward<T>& args, const Sets& sets,
                  std::size_t r, StatisticsFrom from, const T* x, const T* dy, T* dx) {
  const ParameterParts<T> parts = parameter_parts(args, sets);
  const NormStatistics<T>& s = args.statistics[r];
  const std::size_t length = sets.run_length;
  for (std::size_t run = 0; run < sets.runs; ++run) {
    const std::size_t begin = run * length;
    const std::size_t part = r * sets.runs + run;
    if (!args.d_gamma.empty()) {
      parts.gamma.data[part] = row::sum<T>(
          length, [&](std::size_t i) { return dy[begin + i] * row::normalized(s, x[begin + i]); });
    }
    if (!args.d_beta.empty()) {
      parts.beta.data[part] = row::sum<T>(length, [&](std::size_t i) { return dy[begin + i]; });
    }
    const T gamma = gamma_of(options, args.gamma, sets.channel(r, run));
    for (std::size_t i = begin; i < begin + length; ++i) dx[i] = gamma * dy[i];
  }
  row::BackwardSums<T> sums;  // zero where the statistics do not depend on x
  if (from == StatisticsFrom::kData) {
    sums = row::backward_sums(options, s, x, sets.cols(), [&](std::size_t i) { return dx[i]; });
  }
  for (std::size_t i = 0; i < sets.cols(); ++i) {
    dx[i] = row::input_gradient(s, sums, dx[i], row::normalized(s, x[i]));
  }
}

template <typename T>
void backward(const NormOptions& options, const ChannelNormBackward<T>& args, StatisticsFrom from) {
  const Sets sets = sets_of(options, args.x);
  constexpr const char* kWhere = "channel_norm_backward";
  check_channels(kWhere, options, args, sets, from);
  check_tensor<const T>(kWhere, "dy", args.dy, args.x);
  check_tensor(kWhere, "dx", args.dx, args.x);
  check_optional_length(kWhere, "d_gamma", args.d_gamma, args.x.channels);
  check_optional_length(kWhere, "d_beta", args.d_beta, args.x.channels);
  const T* x = args.x.data;
  const T* dy = args.dy.data;
  T* dx = args.dx.data;
  if (options.kind == NormKind::kBatch) {
    const auto [samples, channels, positions] =
        std::array{args.x.samples, args.x.channels, args.x.positions};
    T* x_copy = args.workspace.data();
    T* dy_copy = x_copy + args.x.size();
    transpose(x, samples, channels, positions, x_copy);
    transpose(dy, samples, channels, positions, dy_copy);
    x = x_copy;
    dy = dx = dy_copy;
  }
  parallel_for(sets.rows, row_grain(sets.cols()), [&](std::size_t r) {
    const std::size_t at = r * sets.cols();
    backward_row(options, args, sets, r, from, x + at, dy + at, dx + at);
  });
  const T output_scale = static_cast<T>(options.output_scale);
  auto add_parts = [&](const MatrixView<T>& parts, std::span<T> gradient) {
    if (gradient.empty()) return;
    add_column_sums<T>(parts.rows, parts.cols, gradient,
                       [&](std::size_t n, std::size_t c) { return output_scale * parts(n, c); });
  };
  const ParameterParts<T> parts = parameter_parts(args, sets);
  add_parts(parts.gamma, args.d_gamma);
  add_parts(parts.beta, args.d_beta);
  if (options.kind == NormKind::kBatch) {
    transpose(static_cast<const T*>(dx), args.x.channels, args.x.samples, args.x.positions,
              args.dx.data);
  }
}

}  // namespace

template <typename T>
std::size_t channel_norm_sets(const NormOptions& options, const TensorView<T>& x) {
  return sets_of(options, x).rows;
}

template <typename T>
std::size_t channel_norm_workspace(const NormOptions& options, const TensorView<T>& x) {
  const Sets sets = sets_of(options, x);
  const std::size_t transposed = options.kind == NormKind::kBatch ? 2 * x.size() : 0;
  return transposed + 2 * sets.rows * sets.runs;
}

template <typename T>
void channel_norm_forward(const NormOptions& options, const ChannelNormForward<T>& args) {
  forward(options, args, StatisticsFrom::kData);
}

template <typename T>
void channel_norm_backward(const NormOptions& options, const ChannelNormBackward<T>& args) {
  backward(options, args, StatisticsFrom::kData);
}

template <typename T>
void batch_norm_evaluate(const NormOptions& options, const ChannelNormForward<T>& args) {
  require(options.kind == NormKind::kBatch, "batch_norm_evaluate: the kind must be kBatch");
  forward(options, args, StatisticsFrom::kGiven);
}

template <typename T>
void batch_norm_evaluate_backward(const NormOptions& options, const ChannelNormBackward<T>& args) {
  require(options.kind == NormKind::kBatch,
          "batch_norm_evaluate_backward: the kind must be kBatch");
  backward(options, args, StatisticsFrom::kGiven);
}

template <typename T>
void update_running_statistics(const NormOptions& options, std::size_t count,
                               std::span<const NormStatistics<T>> batch,
                               const RunningStatistics<T>& running) {
  require(count > 1,
          "update_running_statistics: the batch has {} values for each channel, at least 2 are "
          "needed",
          count);
  check_length("update_running_statistics", "running mean", running.mean, batch.size());
  check_length("update_running_statistics", "running variance", running.variance, batch.size());
  const auto n = static_cast<T>(count);
  const T divisor = options.variance == Variance::kPopulation ? n : n - 1;
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
  check_length("running_to_norm_statistics", "statistics", statistics, running.mean.size());
  check_length("running_to_norm_statistics", "running variance", running.variance,
               running.mean.size());
  for (std::size_t c = 0; c < statistics.size(); ++c) {
    statistics[c] = {.mean_hi = running.mean[c]};
    row::set_deviation(options, running.variance[c], statistics[c]);
  }
}

template std::size_t channel_norm_sets(const NormOptions&, const TensorView<float>&);
template std::size_t channel_norm_sets(const NormOptions&, const TensorView<const float>&);
template std::size_t channel_norm_workspace(const NormOptions&, const TensorView<float>&);
template std::size_t channel_norm_workspace(const NormOptions&, const TensorView<const float>&);
template void channel_norm_forward(const NormOptions&, const ChannelNormForward<float>&);
template void channel_norm_backward(const NormOptions&, const ChannelNormBackward<float>&);
template void batch_norm_evaluate(const NormOptions&, const ChannelNormForward<float>&);
template void batch_norm_evaluate_backward(const NormOptions&, const ChannelNormBackward<float>&);
template void update_running_statistics(const NormOptions&, std::size_t,
                                        std::span<const NormStatistics<float>>,
                                        const RunningStatistics<float>&);
template void running_to_norm_statistics(const NormOptions&, const RunningStatistics<float>&,
                                         std::span<NormStatistics<float>>);
template std::size_t channel_norm_sets(const NormOptions&, const TensorView<double>&);
template std::size_t channel_norm_sets(const NormOptions&, const TensorView<const double>&);
template std::size_t channel_norm_workspace(const NormOptions&, const TensorView<double>&);
template std::size_t channel_norm_workspace(const NormOptions&, const TensorView<const double>&);
template void channel_norm_forward(const NormOptions&, const ChannelNormForward<double>&);
template void channel_norm_backward(const NormOptions&, const ChannelNormBackward<double>&);
template void batch_norm_evaluate(const NormOptions&, const ChannelNormForward<double>&);
template void batch_norm_evaluate_backward(const NormOptions&, const ChannelNormBackward<double>&);
template void update_running_statistics(const NormOptions&, std::size_t,
                                        std::span<const NormStatistics<double>>,
                                        const RunningStatistics<double>&);
template void running_to_norm_statistics(const NormOptions&, const RunningStatistics<double>&,
                                         std::span<NormStatistics<double>>);

}  // namespace addnorm
