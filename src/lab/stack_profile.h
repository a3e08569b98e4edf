#pragma once

#include <cstdint>
#include <vector>

#include "lab/silent_bug.h"
#include "probe/profiler.h"
#include "theory/mean_field.h"

namespace addnorm::lab {

/// The values that a probe observed in one stack before its first step.
struct StackProfile {
  std::vector<probe::ProfileEntry> entries;
  /// for each layer: ‖∂loss/∂W‖² of the feed-forward's second W
  std::vector<double> down_gradient;
};

/// Draws the weights that `stack` describes, tokens N(0, 1) and a loss Σ r ⊙ y with r from N(0, 1),
/// and runs forward and backward once. The bug, if there is one, changes the stack.
StackProfile profile_stack(const theory::WideStack& stack, std::uint64_t seed,
                           const SilentBug* bug = nullptr);

/// The same with `seeds` seeds, beginning with `first`, one on each thread at a time.
std::vector<StackProfile> profile_stacks(const theory::WideStack& stack, std::uint64_t first,
                                         std::size_t seeds, const SilentBug* bug = nullptr);

}  // namespace addnorm::lab
