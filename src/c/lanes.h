#pragma once

/// Reads the structs of lanes in addnorm.h.

#include <cstddef>
#include <limits>
#include <string_view>
#include <utility>

#include "addnorm.h"
#include "addnorm/lanes.h"
#include "c/call.h"

namespace addnorm::c {

/// The numbers of lanes in an addnorm_lanes.
struct LaneShape {
  std::size_t rows, features, x, made, branch, read;
};

template <typename Args>
LaneShape lane_shape(std::string_view where, const Args& args) {
  const addnorm_lanes& mix = args.mix;
  const auto or_else = [](std::size_t n, std::size_t otherwise) { return n == 0 ? otherwise : n; };
  const LaneShape shape{.rows = args.rows,
                        .features = args.features,
                        .x = mix.lanes,
                        .made = or_else(mix.made_lanes, mix.lanes),
                        .branch = or_else(mix.branch_lanes, 1),
                        .read = or_else(mix.read_lanes, 1)};
  // The limit keeps products of two of them within a size_t.
  constexpr std::size_t kMost = std::size_t{1} << (sizeof(std::size_t) * 4 - 1);
  for (const auto& [name, count] :
       {std::pair("lanes", shape.x), std::pair("made_lanes", shape.made),
        std::pair("branch_lanes", shape.branch), std::pair("read_lanes", shape.read)}) {
    require(count < kMost, "{}: {} is {}, more than there is memory", where, name, count);
    require(args.rows <= std::numeric_limits<std::ptrdiff_t>::max() / or_else(count, 1),
            "{}: {} rows of {} lanes are more than there is memory", where, args.rows, count);
  }
  require(mix.carry != nullptr || shape.made == shape.x,
          "{}: made_lanes is {}, must be the {} lanes of x where carry is NULL", where, shape.made,
          shape.x);
  return shape;
}

/// Returns a view of the lanes; without memory if the pointer is NULL.
template <typename T>
LanesView<const T> read_lanes(const CallMemory& memory, std::string_view name, const void* data,
                              const LaneShape& shape, std::size_t lanes, std::size_t stride) {
  const auto all = memory.read_optional<T>(name, data, shape.rows * lanes, shape.features, stride);
  return {all.data, shape.rows, lanes, shape.features, lanes * all.stride, all.stride};
}
template <typename T>
LanesView<T> write_lanes(const CallMemory& memory, std::string_view name, void* data,
                         const LaneShape& shape, std::size_t lanes, std::size_t stride) {
  const auto all = memory.write_optional<T>(name, data, shape.rows * lanes, shape.features, stride);
  return {all.data, shape.rows, lanes, shape.features, lanes * all.stride, all.stride};
}

template <typename V>
LaneMix<V> read_mix(const CallMemory& memory, std::string_view name, const void* data,
                    const LaneShape& shape, std::size_t rows, std::size_t count) {
  if (data == nullptr) return {};
  if (rows == 0) rows = 1;
  // The mixes of a stream without rows are not read, so they may have no memory.
  if (shape.rows == 0) return {static_cast<const V*>(data), rows, count};
  return memory.read<V>(name, data, rows, count, 0);
}
/// The gradient of a mix.
template <typename V>
MatrixView<V> write_like(const CallMemory& memory, std::string_view name, void* data,
                         const LaneMix<V>& mix) {
  if (data == nullptr) return {};
  require(!mix.empty(), "{}: there is a {}, but no {}", memory.where(), name, name.substr(2));
  return memory.write<V>(name, data, mix.rows, mix.cols, 0);
}

/// Reads the inputs of forward and backward.
template <typename S, typename B, typename Args>
LanesForward<S, B> read_lanes_forward(const Args& args, const LaneShape& shape,
                                      const CallMemory& memory) {
  using V = Arithmetic<S>;
  const addnorm_lanes& mix = args.mix;
  require(mix.branch == nullptr || mix.write != nullptr, "{}: there is a branch, but no write",
          memory.where());
  LanesForward<S, B> forward{
      .x = read_lanes<S>(memory, "x", mix.x, shape, shape.x, mix.x_stride),
      .carry = read_mix<V>(memory, "carry", mix.carry, shape, mix.carry_rows, shape.made * shape.x),
      .write =
          read_mix<V>(memory, "write", mix.write, shape, mix.write_rows, shape.made * shape.branch),
      .dropout = {mix.dropout_probability, mix.dropout_seed, mix.dropout_offset},
      .read = read_mix<V>(memory, "read", mix.read, shape, mix.read_rows, shape.read * shape.made),
      .gamma = memory.read<V>("gamma", args.gamma, shape.features),
  };
  if (mix.branch != nullptr || mix.write != nullptr) {
    forward.branch =
        read_lanes<B>(memory, "branch", mix.branch, shape, shape.branch, mix.branch_stride);
  }
  if (args.norm != nullptr) forward.norm = norm_options(memory.where(), args.norm);
  return forward;
}

template <typename S, typename B>
LanesForward<S, B> read_lanes_call(const addnorm_lanes_forward_args& a, const CallMemory& memory) {
  using V = Arithmetic<S>;
  const LaneShape shape = lane_shape(memory.where(), a);
  LanesForward<S, B> forward = read_lanes_forward<S, B>(a, shape, memory);
  forward.sum = write_lanes<S>(memory, "sum", a.sum, shape, shape.made, a.sum_stride);
  forward.beta = memory.read<V>("beta", a.beta, shape.features);
  forward.y = write_lanes<B>(memory, "y", a.y, shape, shape.read, a.y_stride);
  forward.statistics = memory.write<NormStatistics<V>>("statistics", a.statistics, shape.rows);
  return forward;
}

template <typename S, typename B>
LanesBackward<S, B> read_lanes_call(const addnorm_lanes_backward_args& a,
                                    const CallMemory& memory) {
  using V = Arithmetic<S>;
  const LaneShape shape = lane_shape(memory.where(), a);
  LanesForward<S, B> forward = read_lanes_forward<S, B>(a, shape, memory);
  const auto statistics = memory.read<NormStatistics<V>>("statistics", a.statistics, shape.rows);
  // Backward only reads them.
  forward.statistics = {const_cast<NormStatistics<V>*>(statistics.data()), statistics.size()};
  return {
      .forward = forward,
      .d_sum = read_lanes<S>(memory, "d_sum", a.d_sum, shape, shape.made, a.d_sum_stride),
      .dy = read_lanes<B>(memory, "dy", a.dy, shape, shape.read, a.dy_stride),
      .dx = write_lanes<S>(memory, "dx", a.dx, shape, shape.x, a.dx_stride),
      .d_branch =
          write_lanes<B>(memory, "d_branch", a.d_branch, shape, shape.branch, a.d_branch_stride),
      .d_carry = write_like<V>(memory, "d_carry", a.d_carry, forward.carry),
      .d_write = write_like<V>(memory, "d_write", a.d_write, forward.write),
      .d_read = write_like<V>(memory, "d_read", a.d_read, forward.read),
      .d_gamma = memory.write<V>("d_gamma", a.d_gamma, shape.features),
      .d_beta = memory.write<V>("d_beta", a.d_beta, shape.features),
      .workspace = memory.write_counted<V>("workspace", a.workspace, a.workspace_size),
      .parameter_gradients = choice(memory.where(), "parameter_gradients", a.parameter_gradients,
                                    GradientMode::kOverwrite),
  };
}

}  // namespace addnorm::c
