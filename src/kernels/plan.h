#pragma once

/// A plan describes how a call of a norm kernel loops over its rows. plan() chooses it once per
/// call, from shape, types and machine. simd/forward_loops.h and simd/backward_loops.h have the
/// loops. No plan changes a bit of the results.

#include <cstddef>
#include <optional>
#include <string>

#include "kernels/machine.h"
#include "kernels/stores.h"

namespace addnorm::kernels {

enum class Direction { kForward, kBackward };

/// The properties of a call that its plan depends on.
struct Problem {
  Direction direction = Direction::kForward;
  std::size_t stream_bytes = 4;  ///< of one element of the residual stream
  std::size_t rows = 0;
  std::size_t features = 0;
  std::size_t bytes = 0;   ///< bytes that the call must read and write
  bool adds = true;        ///< whether there is a branch, or a residual gradient
  bool plain = true;       ///< whether skip and gain are 1, and there is no dropout
  bool float16 = false;    ///< whether a matrix is stored as float16
  bool in_place = false;   ///< whether an output overwrites an input
  bool aligned = true;     ///< whether all rows of the outputs begin cache lines
  bool contiguous = true;  ///< whether a row begins where the one before it ends
};

enum class Loop {
  kRegisters,  ///< rows stay in registers from the first load to the last store
  kTwoPass,    ///< rows are read, and then read again from the cache to be written
  kPipelined,  ///< rows are read in the loop that writes the rows before them
  kWide,       ///< forward rows wider than the staging buffer, block by block
};

/// The number of features of the widest rows for Loop::kRegisters, by the bytes of a value of the
/// stream. Wider rows of float32 spill registers; 64 is the width of most attention heads.
constexpr std::size_t register_features(std::size_t stream_bytes) {
  return stream_bytes == 2 ? 64 : 32;
}

/// The chosen loop and its parameters.
struct Plan {
  Loop loop = Loop::kTwoPass;
  std::size_t rows = 4;      ///< processed at a time
  std::size_t tile = 1024;   ///< kTwoPass: columns of all these rows that are written before the
                             ///< next columns; a multiple of kBlock
  std::size_t prefetch = 0;  ///< distance in bytes of the stream, into L1; 0: by the hardware alone
  Stores stores = Stores::kCached;
  bool from_memory = false;  ///< whether the matrices exceed 3/4 of the last-level cache
  /// kTwoPass: rows are read before the previous ones are written
  bool software_pipelined = false;
};

/// Returns the plan for a problem on a machine.
Plan plan(const Problem& problem, const Machine& machine);

/// Returns a description such as "two-pass, 8 rows, tile 1024, hardware prefetch, cached stores".
std::string describe(const Plan& plan);

/// Makes every call use `plan`, as far as possible: types, options and widths that its loop does
/// not support use kTwoPass or kWide. Empty: plan() decides. For tests; no kernel may be running.
void force_plan(const std::optional<Plan>& plan);

/// Returns the plan for a call: plan() of this problem and machine(), or the forced one.
Plan plan_call(const Problem& problem);

/// The bytes of a row that a thread can stage in its own memory.
inline constexpr std::size_t kStagingBytes = std::size_t{64} << 10;
template <typename V>
inline constexpr std::size_t kStagedFeatures = kStagingBytes / sizeof(V);

}  // namespace addnorm::kernels
