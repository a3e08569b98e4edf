#include "kernels/add_norm.h"

#include "addnorm.h"
#include "c/add_norm.h"
#include "c/call.h"
#include "kernels/channel_norm.h"

using namespace addnorm;
using namespace addnorm::c;

addnorm_status addnorm_residual_add(const addnorm_residual_add_args* args) {
  return call_with_storage(
      "residual_add", args, []<typename S, typename B>(const auto& a, const CallMemory& memory) {
        const ResidualAdd<S, B> add = read_residual_add<S, B>(a, memory);
        residual_add(add, memory.write<S>("sum", a.sum, a.rows, a.features, a.sum_stride),
                     a.threads);
      });
}

addnorm_status addnorm_residual_add_backward(const addnorm_residual_add_backward_args* args) {
  return call_with_storage(
      "residual_add_backward", args,
      []<typename S, typename B>(const auto& a, const CallMemory& memory) {
        using V = Arithmetic<S>;
        residual_add_backward<S, B>(
            {
                .add = read_residual_add<S, B>(a, memory),
                .d_sum = memory.read<S>("d_sum", a.d_sum, a.rows, a.features, a.d_sum_stride),
                .d_branch = memory.write_optional<B>("d_branch", a.d_branch, a.rows, a.features,
                                                     a.d_branch_stride),
                .d_skip = memory.write_counted<V>("d_skip", a.d_skip, a.d_skip_count),
                .d_gain = memory.write_counted<V>("d_gain", a.d_gain, a.d_gain_count),
            },
            a.threads);
      });
}

namespace {

template <typename Args>
std::size_t sets_of(const NormShape& shape, const Args& a, std::string_view where) {
  return kernels::count_sets(where, shape.options, a.rows, a.features, shape.positions);
}

addnorm_status norm_forward(std::string_view where, const addnorm_add_norm_forward_args* args) {
  return call_with_storage(
      where, args, []<typename S, typename B>(const auto& a, const CallMemory& memory) {
        const NormShape shape(memory.where(), a);
        const ResidualAdd<S, B> add = read_residual_add<S, B>(a, memory);
        kernels::add_norm_forward<S, B>(
            memory.where(), shape.options,
            read_add_norm<S, B>(a, shape, add, sets_of(shape, a, memory.where()), memory),
            a.threads);
      });
}

addnorm_status norm_backward(std::string_view where, const addnorm_add_norm_backward_args* args) {
  return call_with_storage(
      where, args, []<typename S, typename B>(const auto& a, const CallMemory& memory) {
        const NormShape shape(memory.where(), a);
        const auto s = memory.read<S>("s", a.s, a.rows, a.features, a.s_stride);
        kernels::add_norm_backward<S, B>(
            memory.where(), shape.options,
            read_add_norm_backward<S, B>(a, shape, s, sets_of(shape, a, memory.where()), memory),
            a.threads);
      });
}

}  // namespace

addnorm_status addnorm_add_norm_forward(const addnorm_add_norm_forward_args* args) {
  return norm_forward("add_norm_forward", args);
}
addnorm_status addnorm_add_norm_backward(const addnorm_add_norm_backward_args* args) {
  return norm_backward("add_norm_backward", args);
}

addnorm_status addnorm_norm_sizes(const addnorm_norm_options* norm, size_t rows, size_t features,
                                  size_t positions, size_t* sets, size_t* workspace) {
  constexpr const char* kWhere = "norm_sizes";
  return guarded([&] {
    const NormOptions options = norm_options(kWhere, norm);
    constexpr std::size_t kMost = std::numeric_limits<std::ptrdiff_t>::max() / sizeof(double);
    require(features == 0 || rows <= kMost / features,
            "{}: {} rows of {} values are more than there is memory", kWhere, rows, features);
    if (positions == 0) positions = 1;
    const std::size_t n_sets = kernels::count_sets(kWhere, options, rows, features, positions);
    if (sets != nullptr) *sets = n_sets;
    if (workspace != nullptr) *workspace = norm_workspace(options, rows, features, positions);
  });
}

size_t addnorm_add_norm_workspace(size_t rows, size_t features) {
  return add_norm_workspace(rows, features);
}
size_t addnorm_epilogue_workspace(size_t rows, size_t features, size_t samples) {
  return epilogue_workspace(rows, features, samples);
}

// The short calls.

namespace {

addnorm_status short_forward(std::string_view where, addnorm_norm_kind kind, size_t rows,
                             size_t features, const float* x, const float* branch,
                             const float* gamma, const float* beta, double epsilon, float* sum,
                             float* y, addnorm_statistics_f32* statistics) {
  addnorm_norm_options norm = addnorm_norm(kind);
  norm.epsilon = epsilon;
  const addnorm_add_norm_forward_args args{.size = sizeof args,
                                           .rows = rows,
                                           .features = features,
                                           .norm = &norm,
                                           .add = {.x = x, .branch = branch},
                                           .sum = sum,
                                           .gamma = gamma,
                                           .beta = beta,
                                           .y = y,
                                           .statistics = statistics};
  return norm_forward(where, &args);
}

addnorm_status short_backward(std::string_view where, addnorm_norm_kind kind, size_t rows,
                              size_t features, const float* s,
                              const addnorm_statistics_f32* statistics, const float* gamma,
                              const float* dy, const float* d_residual, float* dx, float* d_gamma,
                              float* d_beta, float* workspace) {
  const addnorm_norm_options norm = addnorm_norm(kind);
  const addnorm_add_norm_backward_args args{
      .size = sizeof args,
      .rows = rows,
      .features = features,
      .norm = &norm,
      .s = s,
      .statistics = statistics,
      .gamma = gamma,
      .dy = dy,
      .d_residual = d_residual,
      .dx = dx,
      .d_gamma = d_gamma,
      .d_beta = d_beta,
      .workspace = workspace,
      .workspace_size = workspace == nullptr ? 0 : add_norm_workspace(rows, features)};
  return norm_backward(where, &args);
}

}  // namespace

addnorm_status addnorm_layer_norm(size_t rows, size_t features, const float* x, const float* gamma,
                                  const float* beta, double epsilon, float* y,
                                  addnorm_statistics_f32* statistics) {
  return short_forward("layer_norm", ADDNORM_LAYER_NORM, rows, features, x, nullptr, gamma, beta,
                       epsilon, nullptr, y, statistics);
}
addnorm_status addnorm_rms_norm(size_t rows, size_t features, const float* x, const float* gamma,
                                double epsilon, float* y, addnorm_statistics_f32* statistics) {
  return short_forward("rms_norm", ADDNORM_RMS_NORM, rows, features, x, nullptr, gamma, nullptr,
                       epsilon, nullptr, y, statistics);
}
addnorm_status addnorm_add_layer_norm(size_t rows, size_t features, const float* x,
                                      const float* branch, const float* gamma, const float* beta,
                                      double epsilon, float* sum, float* y,
                                      addnorm_statistics_f32* statistics) {
  return short_forward("add_layer_norm", ADDNORM_LAYER_NORM, rows, features, x, branch, gamma, beta,
                       epsilon, sum, y, statistics);
}
addnorm_status addnorm_add_rms_norm(size_t rows, size_t features, const float* x,
                                    const float* branch, const float* gamma, double epsilon,
                                    float* sum, float* y, addnorm_statistics_f32* statistics) {
  return short_forward("add_rms_norm", ADDNORM_RMS_NORM, rows, features, x, branch, gamma, nullptr,
                       epsilon, sum, y, statistics);
}
addnorm_status addnorm_add_layer_norm_backward(size_t rows, size_t features, const float* s,
                                               const addnorm_statistics_f32* statistics,
                                               const float* gamma, const float* dy,
                                               const float* d_residual, float* dx, float* d_gamma,
                                               float* d_beta, float* workspace) {
  return short_backward("add_layer_norm_backward", ADDNORM_LAYER_NORM, rows, features, s,
                        statistics, gamma, dy, d_residual, dx, d_gamma, d_beta, workspace);
}
addnorm_status addnorm_add_rms_norm_backward(size_t rows, size_t features, const float* s,
                                             const addnorm_statistics_f32* statistics,
                                             const float* gamma, const float* dy,
                                             const float* d_residual, float* dx, float* d_gamma,
                                             float* workspace) {
  return short_backward("add_rms_norm_backward", ADDNORM_RMS_NORM, rows, features, s, statistics,
                        gamma, dy, d_residual, dx, d_gamma, nullptr, workspace);
}
