#include "kernels/channel_norm.h"

#include "base/parallel.h"
#include "kernels/argument_memory.h"
#include "kernels/check.h"
#include "kernels/column_sums.h"
#include "kernels/dispatch.h"
#include "kernels/residual_add.h"
#include "kernels/squash.h"

/// BatchNorm, InstanceNorm and GroupNorm as norms of rows. Values that are normalized together are
/// contiguous in (N, C, S) for instance and group norms. For batch norm they become contiguous when
/// the tensor is transposed to (C, N, S). γ and β are constant over runs of such a row.

#ifndef ADDNORM_KERNELS_CHANNEL_NORM_CC
#define ADDNORM_KERNELS_CHANNEL_NORM_CC
namespace addnorm::kernels {

/// A contiguous (N, C, S) tensor in PyTorch's order: N samples, C channels, S positions each.
struct TensorShape {
  std::size_t samples = 0;
  std::size_t channels = 0;
  std::size_t positions = 1;

  std::size_t size() const { return samples * channels * positions; }
};

struct Sets {
  std::size_t rows = 0;        ///< number of sets; each has one mean and one deviation
  std::size_t runs = 0;        ///< number of channels in one set
  std::size_t run_length = 0;  ///< values of one channel in one set
  std::size_t period = 0;      ///< rows r and r + period have the same channels

  std::size_t cols() const { return runs * run_length; }
  std::size_t channel(std::size_t r, std::size_t run) const { return (r % period) * runs + run; }
};

/// The terms of each row in the gradients of γ and β, samples × channels each. Row r and its run
/// are at index r·runs + run.
template <typename T>
struct ParameterParts {
  MatrixView<T> gamma;
  MatrixView<T> beta;
};

template <typename T>
ParameterParts<T> parameter_parts(const AddNormBackward<T>& args, const Sets& sets) {
  const std::size_t channels = sets.period * sets.runs;
  const std::size_t samples = channels == 0 ? 0 : sets.rows * sets.runs / channels;
  T* end = args.workspace.data() + args.workspace.size();
  return {{end - 2 * samples * channels, samples, channels},
          {end - samples * channels, samples, channels}};
}

/// The arguments and the shape that are common to all sets of a call.
template <typename Args>
struct SetJob {
  const NormOptions& options;
  const Args& args;
  const Sets& sets;
};
template <typename T>
using SetForward = SetJob<AddNormForward<T>>;
template <typename T>
using SetBackward = SetJob<AddNormBackward<T>>;

}  // namespace addnorm::kernels
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/channel_norm.cc"
#include <hwy/foreach_target.h>
//
#include "kernels/gradient-inl.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

/// γ's and β's effective values for the channels of one set.
template <typename V>
struct ChannelAffine {
  const NormOptions& options;
  const V* gamma;  ///< of the set's first channel; null: 1
  const V* beta;   ///< likewise; null: 0

  HWY_INLINE V scale(std::size_t run) const {
    return gamma == nullptr ? static_cast<V>(options.output_scale)
                            : effective_gamma(options, gamma[run]);
  }
  HWY_INLINE V offset(std::size_t run) const {
    return beta == nullptr ? V{0} : beta[run] * static_cast<V>(options.output_scale);
  }
};

/// Calls body(i, count, channels) for the packs of a set. channels(values) returns the pack of
/// values(run) for each value's channel.
template <typename V, typename Body>
HWY_INLINE void for_each_channel_pack(const Sets& sets, const Body& body) {
  if (sets.run_length == 1) {  // features last: neighbouring values have different channels
    for_each_pack(sets.runs, [&](std::size_t i, auto count) ADDNORM_BODY {
      body(i, count, [&](const auto& values) ADDNORM_BODY {
        HWY_ALIGN V each[kPack] = {};
        for (std::size_t l = 0; l < HWY_MIN(kPack, sets.runs - i); ++l) each[l] = values(i + l);
        return load(each, Full());
      });
    });
    return;
  }
  for (std::size_t run = 0; run < sets.runs; ++run) {
    for_each_pack(sets.run_length, [&](std::size_t i, auto count) ADDNORM_BODY {
      body(run * sets.run_length + i, count,
           [&](const auto& values) ADDNORM_BODY { return set(values(run)); });
    });
  }
}

template <typename V>
void normalize_set(const SetForward<V>& f, std::size_t r, const V* x, V* y) {
  NormStatistics<V>& found = f.args.statistics[r];
  if (f.args.statistics_from == StatisticsFrom::kInput) {
    found = statistics(f.options, Values<V>(x, f.sets.cols()));
  }
  const Normalize<V> normalize(found);
  const std::size_t channel = f.sets.channel(r, 0);
  const ChannelAffine<V> affine{f.options, f.args.gamma.empty() ? nullptr : &f.args.gamma[channel],
                                f.args.beta.empty() ? nullptr : &f.args.beta[channel]};
  for_each_channel_pack<V>(f.sets, [&](std::size_t i, auto count,
                                       const auto& channels) ADDNORM_BODY {
    const Pack<V> gamma = channels([&](std::size_t run) ADDNORM_BODY { return affine.scale(run); });
    const Pack<V> beta = channels([&](std::size_t run) ADDNORM_BODY { return affine.offset(run); });
    store(normalize(load(x + i, count)) * gamma + beta, y + i, count);
  });
}

/// Computes the row's terms of the gradients of γ and β.
template <typename V>
void parameter_sums(const SetBackward<V>& b, std::size_t r, const V* x, const V* dy) {
  const ParameterParts<V> parts = parameter_parts(b.args, b.sets);
  const Normalize<V> normalize(b.args.statistics[r]);
  V* d_gamma = b.args.d_gamma.empty() ? nullptr : parts.gamma.data + r * b.sets.runs;
  V* d_beta = b.args.d_beta.empty() ? nullptr : parts.beta.data + r * b.sets.runs;
  const std::size_t length = b.sets.run_length;
  if (length == 1) {
    for_each_pack(b.sets.runs, [&](std::size_t i, auto count) ADDNORM_BODY {
      const Pack<V> d = load(dy + i, count);
      if (d_gamma != nullptr) store(d * normalize(load(x + i, count)), d_gamma + i, count);
      if (d_beta != nullptr) store(d, d_beta + i, count);
    });
    return;
  }
  for (std::size_t run = 0; run < b.sets.runs; ++run) {
    const V* x_run = x + run * length;
    const V* dy_run = dy + run * length;
    if (d_gamma != nullptr) {
      d_gamma[run] = sum<V>(length, [&](std::size_t i, auto count) ADDNORM_BODY {
        return keep(load(dy_run + i, count) * normalize(load(x_run + i, count)), count);
      });
    }
    if (d_beta != nullptr) d_beta[run] = sum<V>(length, Memory<V>{dy_run});
  }
}

/// Computes the sums of a set for dx; g is already γ·dy.
template <typename V>
NormGradient<V> gradient_sums(const SetBackward<V>& b, std::size_t r, const V* x, const V* g) {
  // given statistics do not depend on x
  if (b.args.statistics_from == StatisticsFrom::kGiven) return {};
  const std::size_t n = b.sets.cols();
  const NormStatistics<V>& found = b.args.statistics[r];
  const Normalize<V> normalize(found);
  NormGradient<V> gradient;
  gradient.shift =
      gradient_shift<V>(n, [&](auto count) ADDNORM_BODY { return load<kGradientHead>(g, count); });
  const Pack<V> shift = set(gradient.shift);
  const V total = sum<V>(n, [&](std::size_t i, auto count)
                                ADDNORM_BODY { return keep(load(g + i, count) - shift, count); });
  const V projected = sum<V>(n, [&](std::size_t i, auto count) ADDNORM_BODY {
    return keep((load(g + i, count) - shift) * normalize(load(x + i, count)), count);
  });
  gradient.finish(found, true, total * (V{1} / static_cast<V>(n)),
                  projected * (V{1} / variance_divisor<V>(b.options, n)));
  return gradient;
}

/// Computes dx with g = γ·dy in separate memory, so dx may be x.
template <typename V>
void differentiate_set(const SetBackward<V>& b, std::size_t r, const V* x, const V* dy, V* g,
                       V* dx) {
  parameter_sums(b, r, x, dy);
  const NormStatistics<V>& found = b.args.statistics[r];
  const std::size_t channel = b.sets.channel(r, 0);
  const ChannelAffine<V> affine{b.options, b.args.gamma.empty() ? nullptr : &b.args.gamma[channel],
                                nullptr};
  for_each_channel_pack<V>(b.sets, [&](std::size_t i, auto count,
                                       const auto& channels) ADDNORM_BODY {
    const Pack<V> gamma = channels([&](std::size_t run) ADDNORM_BODY { return affine.scale(run); });
    store(load(dy + i, count) * gamma, g + i, count);
  });
  const NormDerivative<V> derivative(found, gradient_sums(b, r, x, static_cast<const V*>(g)));
  for_each_pack(b.sets.cols(), [&](std::size_t i, auto count) ADDNORM_BODY {
    store(derivative(load(g + i, count), load(x + i, count)), dx + i, count);
  });
}

void forward_set(const SetForward<float>& f, std::size_t r, const float* x, float* y) {
  normalize_set(f, r, x, y);
}
void backward_set(const SetBackward<float>& b, std::size_t r, const float* x, const float* dy,
                  float* g, float* dx) {
  differentiate_set(b, r, x, dy, g, dx);
}

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace addnorm::kernels {
namespace {

HWY_EXPORT(forward_set);
HWY_EXPORT(backward_set);

// Double is compiled only once (kernels/dispatch.h).
void run_forward(const SetForward<float>& f, std::size_t r, const float* x, float* y) {
  ADDNORM_DISPATCH(forward_set)(f, r, x, y);
}
void run_forward(const SetForward<double>& f, std::size_t r, const double* x, double* y) {
  HWY_STATIC_DISPATCH(normalize_set)(f, r, x, y);
}
void run_backward(const SetBackward<float>& b, std::size_t r, const float* x, const float* dy,
                  float* g, float* dx) {
  ADDNORM_DISPATCH(backward_set)(b, r, x, dy, g, dx);
}
void run_backward(const SetBackward<double>& b, std::size_t r, const double* x, const double* dy,
                  double* g, double* dx) {
  HWY_STATIC_DISPATCH(differentiate_set)(b, r, x, dy, g, dx);
}

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
  const SetForward<T> job{options, args, sets};
  parallel_for(sets.rows, row_grain(sets.cols()), [&](std::size_t r) {
    run_forward(job, r, s + r * sets.cols(), y + r * sets.cols());
  });
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
  const SetBackward<T> job{options, args, sets};
  parallel_for(sets.rows, row_grain(sets.cols()), [&](std::size_t r) {
    const std::size_t at = r * sets.cols();
    run_backward(job, r, s + at, dy + at, g + at, dx + at);
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
#endif  // HWY_ONCE
