#include "addnorm/norm.h"
#include "base/parallel.h"
#include "kernels/check.h"
#include "kernels/column_sums.h"
#include "kernels/dispatch.h"

/// BatchNorm, InstanceNorm and GroupNorm as norms of rows. A set of values that is normalized
/// together lies contiguous in (N, C, S) for instance and group; for batch it does so once the
/// tensor is transposed to (C, N, S). γ and β are constant over runs of such a row.

#ifndef ADDNORM_KERNELS_CHANNEL_NORM_CC
#define ADDNORM_KERNELS_CHANNEL_NORM_CC
namespace addnorm::kernels {

struct Sets {
  std::size_t rows = 0;        ///< sets: each has one mean and one deviation
  std::size_t runs = 0;        ///< channels of one set
  std::size_t run_length = 0;  ///< values of one channel in one set
  std::size_t period = 0;      ///< rows r and r + period belong to the same channels

  std::size_t cols() const { return runs * run_length; }
  std::size_t channel(std::size_t r, std::size_t run) const { return (r % period) * runs + run; }
};

enum class StatisticsFrom { kData, kGiven };

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

/// What is asked of each set.
template <typename Args>
struct SetJob {
  const NormOptions& options;
  const Args& args;
  const Sets& sets;
  StatisticsFrom from;
};
template <typename T>
using SetForward = SetJob<ChannelNormForward<T>>;
template <typename T>
using SetBackward = SetJob<ChannelNormBackward<T>>;

}  // namespace addnorm::kernels
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/channel_norm.cc"
#include <hwy/foreach_target.h>
//
#include "kernels/row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

/// γ's and β's meaning for the channels of one set.
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

/// Calls body(i, count, channels) for the packs of a set, where channels(values) gives the pack of
/// what values(run) is for each value's channel.
template <typename V, typename Body>
HWY_INLINE void for_each_channel_pack(const Sets& sets, const Body& body) {
  if (sets.run_length == 1) {  // features last: each value is of another channel
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
  if (f.from == StatisticsFrom::kData) {
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

/// The row's parts of the gradients of its channels' γ and β.
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

/// What the gradient of one set's values needs beside each of them, with g = γ·dy:
/// dx = ((g − shift) − offset − (x − hi)·slope)/deviation, as in add_norm_backward.
template <typename V>
struct SetSums {
  V shift = 0;   ///< the mean of the first values of g, or 0 where the norm does not centre
  V offset = 0;  ///< mean(g − shift) − lo·slope
  V slope = 0;  ///< Σ(g − shift)·x̂ ÷ the variance's divisor, where Σx̂ is 0, ÷ the deviation
};

/// What dx needs of the set, with g in its place.
template <typename V>
SetSums<V> gradient_sums(const SetBackward<V>& b, std::size_t r, const V* x, const V* g) {
  if (b.from == StatisticsFrom::kGiven) return {};  // they do not depend on x
  const std::size_t n = b.sets.cols();
  const NormStatistics<V>& found = b.args.statistics[r];
  const Normalize<V> normalize(found);
  SetSums<V> sums;
  const Tail first{HWY_MIN(n, kGradientHead)};
  sums.shift = tree_sum(load<kGradientHead>(g, first)) * inverse_gradient_head<V>(n);
  const Pack<V> shift = set(sums.shift);
  const V total = sum<V>(n, [&](std::size_t i, auto count)
                                ADDNORM_BODY { return keep(load(g + i, count) - shift, count); });
  const V projected = sum<V>(n, [&](std::size_t i, auto count) ADDNORM_BODY {
    return keep((load(g + i, count) - shift) * normalize(load(x + i, count)), count);
  });
  sums.slope = projected * (V{1} / variance_divisor<V>(b.options, n)) * found.epsilon_ratio *
               found.reciprocal;
  sums.offset = gradient_offset(total * (V{1} / static_cast<V>(n)), found.mean_lo, sums.slope);
  return sums;
}

template <typename V>
void differentiate_set(const SetBackward<V>& b, std::size_t r, const V* x, const V* dy, V* dx) {
  parameter_sums(b, r, x, dy);
  const NormStatistics<V>& found = b.args.statistics[r];
  const std::size_t channel = b.sets.channel(r, 0);
  const ChannelAffine<V> affine{b.options, b.args.gamma.empty() ? nullptr : &b.args.gamma[channel],
                                nullptr};
  for_each_channel_pack<V>(b.sets, [&](std::size_t i, auto count,
                                       const auto& channels) ADDNORM_BODY {
    const Pack<V> gamma = channels([&](std::size_t run) ADDNORM_BODY { return affine.scale(run); });
    store(load(dy + i, count) * gamma, dx + i, count);
  });
  const SetSums<V> sums = gradient_sums(b, r, x, static_cast<const V*>(dx));
  const Normalize<V> normalize(found);
  const Pack<V> shift = set(sums.shift);
  const Pack<V> offset = set(sums.offset);
  const Pack<V> slope = set(sums.slope);
  const Pack<V> factor = set(found.reciprocal * found.scale);
  for_each_pack(b.sets.cols(), [&](std::size_t i, auto count) ADDNORM_BODY {
    const Pack<V> g = (load(dx + i, count) - shift) - offset;
    store((g - normalize.from_hi(load(x + i, count)) * slope) * factor, dx + i, count);
  });
}

void forward_set(const SetForward<float>& f, std::size_t r, const float* x, float* y) {
  normalize_set(f, r, x, y);
}
void backward_set(const SetBackward<float>& b, std::size_t r, const float* x, const float* dy,
                  float* dx) {
  differentiate_set(b, r, x, dy, dx);
}

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace addnorm::kernels {
namespace {

HWY_EXPORT(forward_set);
HWY_EXPORT(backward_set);

// Double is compiled once (kernels/dispatch.h).
void run_forward(const SetForward<float>& f, std::size_t r, const float* x, float* y) {
  ADDNORM_DISPATCH(forward_set)(f, r, x, y);
}
void run_forward(const SetForward<double>& f, std::size_t r, const double* x, double* y) {
  HWY_STATIC_DISPATCH(normalize_set)(f, r, x, y);
}
void run_backward(const SetBackward<float>& b, std::size_t r, const float* x, const float* dy,
                  float* dx) {
  ADDNORM_DISPATCH(backward_set)(b, r, x, dy, dx);
}
void run_backward(const SetBackward<double>& b, std::size_t r, const double* x, const double* dy,
                  double* dx) {
  HWY_STATIC_DISPATCH(differentiate_set)(b, r, x, dy, dx);
}

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
  const SetForward<T> job{options, args, sets, from};
  parallel_for(sets.rows, row_grain(sets.cols()), [&](std::size_t r) {
    run_forward(job, r, x + r * sets.cols(), y + r * sets.cols());
  });
  if (transposed) {
    transpose(static_cast<const T*>(y), args.x.channels, args.x.samples, args.x.positions,
              args.y.data);
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
  const SetBackward<T> job{options, args, sets, from};
  parallel_for(sets.rows, row_grain(sets.cols()), [&](std::size_t r) {
    const std::size_t at = r * sets.cols();
    run_backward(job, r, x + at, dy + at, dx + at);
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

}  // namespace addnorm::kernels

namespace addnorm {

template <typename T>
std::size_t channel_norm_sets(const NormOptions& options, const TensorView<T>& x) {
  return kernels::sets_of(options, x).rows;
}

template <typename T>
std::size_t channel_norm_workspace(const NormOptions& options, const TensorView<T>& x) {
  const kernels::Sets sets = kernels::sets_of(options, x);
  const std::size_t transposed = options.kind == NormKind::kBatch ? 2 * x.size() : 0;
  return transposed + 2 * sets.rows * sets.runs;
}

template <typename T>
void channel_norm_forward(const NormOptions& options, const ChannelNormForward<T>& args,
                          std::size_t threads) {
  const ThreadCount count(threads);
  kernels::forward(options, args, kernels::StatisticsFrom::kData);
}

template <typename T>
void channel_norm_backward(const NormOptions& options, const ChannelNormBackward<T>& args,
                           std::size_t threads) {
  const ThreadCount count(threads);
  kernels::backward(options, args, kernels::StatisticsFrom::kData);
}

template <typename T>
void batch_norm_evaluate(const NormOptions& options, const ChannelNormForward<T>& args,
                         std::size_t threads) {
  const ThreadCount count(threads);
  require(options.kind == NormKind::kBatch, "batch_norm_evaluate: the kind must be kBatch");
  kernels::forward(options, args, kernels::StatisticsFrom::kGiven);
}

template <typename T>
void batch_norm_evaluate_backward(const NormOptions& options, const ChannelNormBackward<T>& args,
                                  std::size_t threads) {
  const ThreadCount count(threads);
  require(options.kind == NormKind::kBatch,
          "batch_norm_evaluate_backward: the kind must be kBatch");
  kernels::backward(options, args, kernels::StatisticsFrom::kGiven);
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
  for (std::size_t c = 0; c < statistics.size(); ++c) {
    statistics[c] = {.mean_hi = running.mean[c]};
    kernels::set_deviation(options, running.variance[c], statistics[c]);
  }
}

template std::size_t channel_norm_sets(const NormOptions&, const TensorView<float>&);
template std::size_t channel_norm_sets(const NormOptions&, const TensorView<const float>&);
template std::size_t channel_norm_workspace(const NormOptions&, const TensorView<float>&);
template std::size_t channel_norm_workspace(const NormOptions&, const TensorView<const float>&);
template void channel_norm_forward(const NormOptions&, const ChannelNormForward<float>&,
                                   std::size_t);
template void channel_norm_backward(const NormOptions&, const ChannelNormBackward<float>&,
                                    std::size_t);
template void batch_norm_evaluate(const NormOptions&, const ChannelNormForward<float>&,
                                  std::size_t);
template void batch_norm_evaluate_backward(const NormOptions&, const ChannelNormBackward<float>&,
                                           std::size_t);
template void update_running_statistics(const NormOptions&, std::size_t,
                                        std::span<const NormStatistics<float>>,
                                        const RunningStatistics<float>&);
template void running_to_norm_statistics(const NormOptions&, const RunningStatistics<float>&,
                                         std::span<NormStatistics<float>>);
template std::size_t channel_norm_sets(const NormOptions&, const TensorView<double>&);
template std::size_t channel_norm_sets(const NormOptions&, const TensorView<const double>&);
template std::size_t channel_norm_workspace(const NormOptions&, const TensorView<double>&);
template std::size_t channel_norm_workspace(const NormOptions&, const TensorView<const double>&);
template void channel_norm_forward(const NormOptions&, const ChannelNormForward<double>&,
                                   std::size_t);
template void channel_norm_backward(const NormOptions&, const ChannelNormBackward<double>&,
                                    std::size_t);
template void batch_norm_evaluate(const NormOptions&, const ChannelNormForward<double>&,
                                  std::size_t);
template void batch_norm_evaluate_backward(const NormOptions&, const ChannelNormBackward<double>&,
                                           std::size_t);
template void update_running_statistics(const NormOptions&, std::size_t,
                                        std::span<const NormStatistics<double>>,
                                        const RunningStatistics<double>&);
template void running_to_norm_statistics(const NormOptions&, const RunningStatistics<double>&,
                                         std::span<NormStatistics<double>>);

}  // namespace addnorm
#endif  // HWY_ONCE
