#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "addnorm/nn/block.h"
#include "addnorm/nn/stack.h"

namespace addnorm::lab {

enum class StatisticsType { kFloat32, kFloat16 };
enum class CarryUse { kAsItIs, kTransposed };

/// The description of a stack, before anything is drawn.
struct StackPlan {
  BlockOptions block;
  std::vector<BlockPlacement> placements;
  FinalNorm final_norm = FinalNorm::kAsPlacement;
  /// for norm_sample.h; stacks always use float32
  StatisticsType statistics = StatisticsType::kFloat32;
  CarryUse carry = CarryUse::kAsItIs;  ///< of lanes, for bare_stream.h
};

/// A bug in a network's plumbing that raises no error. Each of them has happened in practice.
struct SilentBug {
  std::string_view name;
  std::string_view meaning;
  void (*put_into)(StackPlan& plan);
};

std::span<const SilentBug> silent_bugs();
/// Returns the bug with this name; throws an Error that lists the names if there is none.
const SilentBug& find_silent_bug(std::string_view name);

}  // namespace addnorm::lab
