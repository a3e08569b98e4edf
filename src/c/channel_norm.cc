#include <algorithm>
#include <cstddef>
#include <limits>

#include "addnorm.h"
#include "c/call.h"

namespace addnorm::c {
namespace {

/// How many values a tensor has.
std::size_t tensor_size(std::string_view where, std::size_t samples, std::size_t channels,
                        std::size_t positions) {
  std::size_t most = std::numeric_limits<std::ptrdiff_t>::max() / sizeof(double);
  for (const std::size_t count : {samples, channels, positions}) {
    most /= std::max<std::size_t>(1, count);
  }
  require(most > 0, "{}: the tensor is {} × {} × {}, more than there is memory", where, samples,
          channels, positions);
  return samples * channels * positions;
}

template <typename T, typename Args>
TensorView<const T> read_tensor(std::string_view name, const void* data, const Args& a,
                                CallMemory& memory) {
  const std::size_t size = tensor_size(memory.where(), a.samples, a.channels, a.positions);
  return {memory.read<T>(name, data, 1, size, 0).data, a.samples, a.channels, a.positions};
}
template <typename T, typename Args>
TensorView<T> write_tensor(std::string_view name, void* data, const Args& a, CallMemory& memory,
                           const MayBe& may_be) {
  const std::size_t size = tensor_size(memory.where(), a.samples, a.channels, a.positions);
  return {memory.write<T>(name, data, 1, size, 0, may_be).data, a.samples, a.channels, a.positions};
}

template <typename T, typename Args>
std::size_t count_sets(const NormOptions& options, const Args& a) {
  return channel_norm_sets(options, TensorView<T>{nullptr, a.samples, a.channels, a.positions});
}

template <typename T>
ChannelNormForward<T> forward_args(const NormOptions& options,
                                   const addnorm_channel_norm_forward_args& a, CallMemory& memory) {
  return {
      .x = read_tensor<T>("x", a.x, a, memory),
      .gamma = memory.read<T>("gamma", a.gamma, a.channels),
      .beta = memory.read<T>("beta", a.beta, a.channels),
      .y = write_tensor<T>("y", a.y, a, memory, {"x"}),
      .statistics =
          memory.write<NormStatistics<T>>("statistics", a.statistics, count_sets<T>(options, a)),
      .workspace = memory.write_counted<T>("workspace", a.workspace, a.workspace_size),
  };
}

template <typename T>
ChannelNormBackward<T> backward_args(const NormOptions& options,
                                     const addnorm_channel_norm_backward_args& a,
                                     CallMemory& memory) {
  return {
      .x = read_tensor<T>("x", a.x, a, memory),
      .statistics =
          memory.read<NormStatistics<T>>("statistics", a.statistics, count_sets<T>(options, a)),
      .gamma = memory.read<T>("gamma", a.gamma, a.channels),
      .dy = read_tensor<T>("dy", a.dy, a, memory),
      .dx = write_tensor<T>("dx", a.dx, a, memory, {"dy"}),
      .d_gamma = memory.write<T>("d_gamma", a.d_gamma, a.channels),
      .d_beta = memory.write<T>("d_beta", a.d_beta, a.channels),
      .workspace = memory.write_counted<T>("workspace", a.workspace, a.workspace_size),
  };
}

template <typename T>
RunningStatistics<T> running_statistics(const addnorm_running_statistics_args& a,
                                        CallMemory& memory) {
  for (const void* values : {a.mean, a.variance, a.statistics}) {
    require(values != nullptr || a.channels == 0,
            "{}: mean, variance or statistics is NULL, must have {} values", memory.where(),
            a.channels);
  }
  RunningStatistics<T> running{.mean = memory.write<T>("mean", a.mean, a.channels),
                               .variance = memory.write<T>("variance", a.variance, a.channels)};
  running.momentum = static_cast<T>(a.momentum);
  return running;
}

}  // namespace
}  // namespace addnorm::c

using namespace addnorm;
using namespace addnorm::c;

addnorm_status addnorm_channel_norm_forward(const addnorm_channel_norm_forward_args* args) {
  return call_with_type(
      "channel_norm_forward", args, []<typename T>(const auto& a, CallMemory& memory) {
        const NormOptions options = norm_options(memory.where(), a.norm);
        channel_norm_forward(options, forward_args<T>(options, a, memory), a.threads);
      });
}

addnorm_status addnorm_channel_norm_backward(const addnorm_channel_norm_backward_args* args) {
  return call_with_type(
      "channel_norm_backward", args, []<typename T>(const auto& a, CallMemory& memory) {
        const NormOptions options = norm_options(memory.where(), a.norm);
        channel_norm_backward(options, backward_args<T>(options, a, memory), a.threads);
      });
}

addnorm_status addnorm_channel_norm_sizes(const addnorm_norm_options* norm, size_t samples,
                                          size_t channels, size_t positions, size_t* sets,
                                          size_t* workspace) {
  constexpr const char* kWhere = "channel_norm_sizes";
  return guarded([&] {
    const NormOptions options = norm_options(kWhere, norm);
    tensor_size(kWhere, samples, channels, positions);
    const TensorView<const float> shape{nullptr, samples, channels, positions};
    const std::size_t n_sets = channel_norm_sets(options, shape);
    if (sets != nullptr) *sets = n_sets;
    if (workspace != nullptr) *workspace = channel_norm_workspace(options, shape);
  });
}

addnorm_status addnorm_batch_norm_evaluate(const addnorm_channel_norm_forward_args* args) {
  return call_with_type(
      "batch_norm_evaluate", args, []<typename T>(const auto& a, CallMemory& memory) {
        const NormOptions options = norm_options(memory.where(), a.norm);
        batch_norm_evaluate(options, forward_args<T>(options, a, memory), a.threads);
      });
}

addnorm_status addnorm_batch_norm_evaluate_backward(
    const addnorm_channel_norm_backward_args* args) {
  return call_with_type(
      "batch_norm_evaluate_backward", args, []<typename T>(const auto& a, CallMemory& memory) {
        const NormOptions options = norm_options(memory.where(), a.norm);
        batch_norm_evaluate_backward(options, backward_args<T>(options, a, memory), a.threads);
      });
}

addnorm_status addnorm_update_running_statistics(const addnorm_running_statistics_args* args) {
  return call_with_type(
      "update_running_statistics", args, []<typename T>(const auto& a, CallMemory& memory) {
        const auto batch = memory.read<NormStatistics<T>>("statistics", a.statistics, a.channels);
        update_running_statistics<T>(norm_options(memory.where(), a.norm), a.count, batch,
                                     running_statistics<T>(a, memory));
      });
}

addnorm_status addnorm_running_to_norm_statistics(const addnorm_running_statistics_args* args) {
  return call_with_type(
      "running_to_norm_statistics", args, []<typename T>(const auto& a, CallMemory& memory) {
        const auto statistics =
            memory.write<NormStatistics<T>>("statistics", a.statistics, a.channels);
        running_to_norm_statistics<T>(norm_options(memory.where(), a.norm),
                                      running_statistics<T>(a, memory), statistics);
      });
}
