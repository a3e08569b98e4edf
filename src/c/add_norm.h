#pragma once

/// Reads the structs of Add & Norm in addnorm.h.

#include <cstddef>
#include <string_view>

#include "addnorm.h"
#include "addnorm/norm.h"
#include "c/call.h"
#include "c/epilogue.h"

namespace addnorm::c {

/// Reads a factor. One value is read here, so it must be in host memory.
template <typename V>
Scale<V> read_scale(std::string_view name, const void* data, std::size_t count,
                    std::size_t features, const CallMemory& memory) {
  const std::span<const V> values = memory.read_counted<V>(name, data, count);
  if (values.empty()) return {};
  if (count == 1) return {.constant = values[0]};
  kernels::check_length(memory.where(), name, values, features);
  return {.vector = values};
}

template <typename S, typename B, typename Args>
ResidualAdd<S, B> read_residual_add(const Args& args, const CallMemory& memory) {
  using V = Arithmetic<S>;
  const addnorm_residual& a = args.add;
  const std::size_t rows = args.rows, features = args.features;
  return {
      .x = memory.read<S>("x", a.x, rows, features, a.x_stride),
      .branch = memory.read_optional<B>("branch", a.branch, rows, features, a.branch_stride),
      .skip = read_scale<V>("skip", a.skip, a.skip_count, features, memory),
      .gain = read_scale<V>("gain", a.gain, a.gain_count, features, memory),
      .dropout = {a.dropout_probability, a.dropout_seed, a.dropout_offset},
  };
}

/// The options of a norm and the shape of its rows.
struct NormShape {
  NormOptions options;
  std::size_t features, positions;

  template <typename Args>
  NormShape(std::string_view where, const Args& a)
      : options(norm_options(where, a.norm)),
        features(a.features),
        positions(a.positions == 0 ? 1 : a.positions) {}

  std::size_t parameters() const {
    const bool of_features = normalizes_rows(options.kind) || squashes(options.kind);
    return of_features ? features : features / positions;
  }
};

template <typename Args>
StatisticsFrom statistics_from(std::string_view where, const Args& a) {
  return choice(where, "statistics_from", a.statistics_from, StatisticsFrom::kGiven);
}

/// `sets`: the number of sets of values that have their own statistics.
template <typename S, typename B>
AddNormForward<S, B> read_add_norm(const addnorm_add_norm_forward_args& a, const NormShape& shape,
                                   const ResidualAdd<S, B>& add, std::size_t sets,
                                   const CallMemory& memory) {
  using V = Arithmetic<S>;
  const Epilogue<S, B> epilogue = read_epilogue<S, B>(a.epilogue, {a.rows, a.features, memory});
  const bool wants_y = a.y != nullptr || !epilogue.has_output();
  return {
      .add = add,
      .sum = memory.write_optional<S>("sum", a.sum, a.rows, a.features, a.sum_stride),
      .gamma = memory.read<V>("gamma", a.gamma, shape.parameters()),
      .beta = memory.read<V>("beta", a.beta, shape.parameters()),
      .alpha = memory.read<V>("alpha", a.alpha, 1),
      .shift = memory.read<V>("shift", a.shift, 1),
      .y = wants_y ? memory.write<B>("y", a.y, a.rows, a.features, a.y_stride) : MatrixView<B>{},
      .statistics = memory.write<NormStatistics<V>>("statistics", a.statistics, sets),
      .positions = shape.positions,
      .workspace = memory.write_counted<V>("workspace", a.workspace, a.workspace_size),
      .statistics_from = statistics_from(memory.where(), a),
      .epilogue = epilogue,
  };
}

template <typename S, typename B>
AddNormBackward<S, B> read_add_norm_backward(const addnorm_add_norm_backward_args& a,
                                             const NormShape& shape, MatrixView<const S> s,
                                             std::size_t sets, const CallMemory& memory) {
  using V = Arithmetic<S>;
  return {
      .s = s,
      .statistics = memory.read<NormStatistics<V>>("statistics", a.statistics, sets),
      .gamma = memory.read<V>("gamma", a.gamma, shape.parameters()),
      .alpha = memory.read<V>("alpha", a.alpha, 1),
      .shift = memory.read<V>("shift", a.shift, 1),
      .dy = memory.read<B>("dy", a.dy, a.rows, a.features, a.dy_stride),
      .d_residual = memory.read_optional<S>("d_residual", a.d_residual, a.rows, a.features,
                                            a.d_residual_stride),
      .skip = read_scale<V>("skip", a.skip, a.skip_count, a.features, memory),
      .dx = memory.write<S>("dx", a.dx, a.rows, a.features, a.dx_stride),
      .d_gamma = memory.write<V>("d_gamma", a.d_gamma, shape.parameters()),
      .d_beta = memory.write<V>("d_beta", a.d_beta, shape.parameters()),
      .d_alpha = memory.write<V>("d_alpha", a.d_alpha, 1),
      .d_shift = memory.write<V>("d_shift", a.d_shift, 1),
      .workspace = memory.write_counted<V>("workspace", a.workspace, a.workspace_size),
      .parameter_gradients = choice(memory.where(), "parameter_gradients", a.parameter_gradients,
                                    GradientMode::kOverwrite),
      .positions = shape.positions,
      .statistics_from = statistics_from(memory.where(), a),
      .epilogue = read_epilogue<S, B>(a.epilogue, {a.rows, a.features, memory}),
  };
}

}  // namespace addnorm::c
