#pragma once

/// The parts that the kernels of lanes.h share: the numbers of lanes, and the argument checks.

#include <cstddef>

#include "addnorm/lanes.h"
#include "kernels/aliasing.h"
#include "kernels/argument_memory.h"
#include "kernels/check.h"

namespace addnorm::kernels {

/// The number of columns in loops that keep all their lanes in L1.
inline constexpr std::size_t kLaneTile = 256;

/// The number of lanes of each kind.
struct LaneCounts {
  std::size_t x = 0;       ///< n
  std::size_t branch = 0;  ///< q
  std::size_t made = 0;    ///< n′, of X′
  std::size_t reads = 0;   ///< k
  bool mixes = false;      ///< false: X′ is x itself, in the same memory

  template <typename S, typename B>
  explicit LaneCounts(const LanesForward<S, B>& args)
      : x(args.x.lanes),
        branch(args.branch.lanes),
        made(args.carry.cols == 0 ? x : args.carry.cols / x),
        reads(args.read.cols / made),
        mixes(branch > 0 || args.carry.cols > 0 ||
              (!args.sum.empty() && args.sum.data != args.x.data)) {}

  std::size_t carry() const { return made * x; }
  std::size_t write() const { return made * branch; }
  std::size_t read() const { return reads * made; }
};

template <typename T>
std::size_t bytes_of(const LanesView<T>& view) {
  return view.empty() ? 0 : view.rows * view.lanes * view.features * sizeof(T);
}
/// Whether every row of every lane begins a cache line, which non-temporal stores need.
template <typename T>
bool streamable(const LanesView<T>& view) {
  return streamable(MatrixView<T>(view.data, view.rows, view.features, view.row_stride)) &&
         view.lane_stride * sizeof(T) % kLine == 0;
}
template <typename T, typename U>
bool same_place(const LanesView<T>& a, const LanesView<U>& b) {
  return !a.empty() && static_cast<const void*>(a.data) == static_cast<const void*>(b.data);
}

/// Throws unless `view` has the given shape and memory for it.
template <typename T>
void check_lanes(std::string_view where, std::string_view name, const LanesView<T>& view,
                 std::size_t rows, std::size_t lanes, std::size_t features) {
  require(!view.empty() || rows == 0, "{}: {} is absent, must be {} × {} × {}", where, name, rows,
          lanes, features);
  require(view.rows == rows && view.lanes == lanes && view.features == features,
          "{}: {} is {} × {} × {}, must be {} × {} × {}", where, name, view.rows, view.lanes,
          view.features, rows, lanes, features);
  require(view.row_stride >= features || rows < 2,
          "{}: the row stride of {} is {}, must be at least its {} features", where, name,
          view.row_stride, features);
  const bool one_matrix = std::is_const_v<T> && view.lane_stride == 0;  // one matrix for all lanes
  require(view.lane_stride >= features || lanes < 2 || one_matrix,
          "{}: the lane stride of {} is {}, must be at least its {} features", where, name,
          view.lane_stride, features);
  constexpr std::size_t kMost = std::numeric_limits<std::ptrdiff_t>::max() / sizeof(T) / 2;
  require(view.row_stride <= kMost / (rows + 1) && view.lane_stride <= kMost / (lanes + 1),
          "{}: {} has {} rows of stride {} and {} lanes of stride {}, more than there is memory",
          where, name, rows, view.row_stride, lanes, view.lane_stride);
}
template <typename T>
void check_optional_lanes(std::string_view where, std::string_view name, const LanesView<T>& view,
                          std::size_t rows, std::size_t lanes, std::size_t features) {
  if (!view.empty()) check_lanes(where, name, view, rows, lanes, features);
}

/// Throws unless a mix has `count` numbers in one row, or in one row for each row of the stream.
template <typename T>
void check_mix(std::string_view where, std::string_view name, const MatrixView<T>& mix,
               std::size_t rows, std::size_t count) {
  require(mix.cols == 0 || mix.rows == 1 || mix.rows == rows,
          "{}: {} has {} rows, must have 1 or {}", where, name, mix.rows, rows);
  check_shape(where, name, mix, mix.rows, count);
}

/// Throws unless the inputs of forward and backward fit together.
template <typename S, typename B>
void check_lanes_inputs(std::string_view where, const LanesForward<S, B>& args) {
  const auto& x = args.x;
  require(x.lanes > 0 && x.features > 0, "{}: x has {} lanes of {} features, must have some", where,
          x.lanes, x.features);
  check_lanes(where, "x", x, x.rows, x.lanes, x.features);
  const auto check_count = [&](std::string_view name, std::size_t lanes) {
    require(lanes <= kMostLanes, "{}: {} has {} lanes, must have at most {}", where, name, lanes,
            kMostLanes);
  };
  const auto check_divides = [&](std::string_view name, const LaneMix<Arithmetic<S>>& mix,
                                 std::string_view of, std::size_t lanes) {
    require(mix.cols % lanes == 0,
            "{}: {} has {} columns, must have a multiple of the {} lanes of {}", where, name,
            mix.cols, lanes, of);
  };
  check_divides("carry", args.carry, "x", x.lanes);
  const LaneCounts lanes(args);
  if (lanes.mixes) {
    check_count("x", lanes.x);
    check_count("X′", lanes.made);
    check_count("branch", lanes.branch);
  }
  check_divides("read", args.read, "X′", lanes.made);
  check_count("y", lanes.reads);
  if (lanes.branch > 0) {
    check_lanes(where, "branch", args.branch, x.rows, lanes.branch, x.features);
  }
  const auto check = [&](std::string_view name, const auto& mix, std::size_t count) {
    if (count > 0) check_mix(where, name, mix, x.rows, count);
  };
  check("carry", args.carry, args.carry.cols);
  check("write", args.write, lanes.write());
  check("read", args.read, args.read.cols);
  const double probability = args.dropout.probability;
  require(probability >= 0 && probability < 1,
          "{}: the dropout probability is {}, must be at least 0 and below 1", where, probability);
  require(!args.dropout.active() || lanes.branch <= 1,
          "{}: dropout takes a branch of one lane, there are {}", where, lanes.branch);

  if (args.norm) {
    require(normalizes_rows(args.norm->kind), "{}: the norm is of kind {}, must be layer or rms",
            where, to_string(args.norm->kind));
    require(lanes.reads == 1, "{}: a norm takes one read, there are {}", where, lanes.reads);
    check_norm_options(where, *args.norm, x.features);
  }
  check_optional_length(where, "gamma", args.gamma, args.norm ? x.features : 0);
  check_optional_length(where, "beta", args.beta, args.norm ? x.features : 0);
  check_optional_length(where, "statistics", args.statistics, args.norm ? x.rows : 0);
}

/// The inputs of lanes_forward that its outputs may overwrite.
struct LaneInputs {
  ArgumentMemory::Set x, branch;
};
/// Adds the inputs of forward and backward to the memory of a call. The mixes of a stream without
/// rows are skipped, since they may have no memory.
template <typename S, typename B>
LaneInputs read_inputs(const LanesForward<S, B>& args, ArgumentMemory& memory) {
  if (args.x.rows > 0) {
    memory.read("carry", args.carry);
    memory.read("write", args.write);
    memory.read("read", args.read);
  }
  memory.read("gamma", args.gamma);
  memory.read("beta", args.beta);
  return {memory.read("x", args.x), memory.read("branch", args.branch)};
}

template <typename S, typename B>
void check_lanes_forward(std::string_view where, const LanesForward<S, B>& args) {
  check_lanes_inputs(where, args);
  const LaneCounts lanes(args);
  const std::size_t rows = args.x.rows;
  const std::size_t features = args.x.features;
  if (lanes.mixes) check_lanes(where, "sum", args.sum, rows, lanes.made, features);
  check_optional_lanes(where, "sum", args.sum, rows, lanes.made, features);
  require(lanes.reads > 0 || args.y.empty(), "{}: there is a y, but no read", where);
  if (lanes.reads > 0) check_lanes(where, "y", args.y, rows, lanes.reads, features);

  ArgumentMemory memory(where);
  const LaneInputs inputs = read_inputs(args, memory);
  memory.write("sum", args.sum, inputs.x);
  memory.write("y", args.y, inputs.branch);
  memory.write("statistics", args.statistics);
}

template <typename S, typename B>
void check_lanes_backward(std::string_view where, const LanesBackward<S, B>& args) {
  const LanesForward<S, B>& forward = args.forward;
  check_lanes_inputs(where, forward);
  const LaneCounts lanes(forward);
  const std::size_t rows = forward.x.rows;
  const std::size_t features = forward.x.features;
  const auto check_gradient = [&](std::string_view name, const MatrixView<Arithmetic<S>>& gradient,
                                  const LaneMix<Arithmetic<S>>& mix) {
    if (!gradient.empty()) check_shape(where, name, gradient, mix.rows, mix.cols);
  };
  check_optional_lanes(where, "d_sum", args.d_sum, rows, lanes.made, features);
  if (lanes.reads > 0) check_lanes(where, "dy", args.dy, rows, lanes.reads, features);
  require(lanes.reads > 0 || args.dy.empty(), "{}: there is a dy, but no read", where);
  check_lanes(where, "dx", args.dx, rows, lanes.x, features);
  check_optional_lanes(where, "d_branch", args.d_branch, rows, lanes.branch, features);
  check_gradient("d_carry", args.d_carry, forward.carry);
  check_gradient("d_write", args.d_write, forward.write);
  check_gradient("d_read", args.d_read, forward.read);
  if (forward.norm) check_length(where, "statistics", forward.statistics, rows);
  check_optional_length(where, "d_gamma", args.d_gamma, forward.norm ? features : 0);
  check_optional_length(where, "d_beta", args.d_beta, forward.norm ? features : 0);

  ArgumentMemory memory(where);
  read_inputs(forward, memory);
  memory.read("statistics", forward.statistics);
  const auto d_sum = memory.read("d_sum", args.d_sum), dy = memory.read("dy", args.dy);
  memory.write("dx", args.dx, d_sum);
  memory.write("d_branch", args.d_branch, dy);
  memory.write("d_carry", args.d_carry);
  memory.write("d_write", args.d_write);
  memory.write("d_read", args.d_read);
  memory.write("d_gamma", args.d_gamma);
  memory.write("d_beta", args.d_beta);
  memory.write("workspace", args.workspace);
}

/// Memory for some rows' terms of the gradients of parameters; null: not wanted.
template <typename V>
struct LaneSums {
  V* gamma = nullptr;
  V* beta = nullptr;
  V* carry = nullptr;  ///< here and below: for mixes that are the same for all rows
  V* write = nullptr;
  V* read = nullptr;
};

}  // namespace addnorm::kernels
