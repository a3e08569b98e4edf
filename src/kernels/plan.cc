#include "kernels/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "kernels/aliasing.h"
#include "kernels/constant_block.h"
#include "kernels/storages.h"

namespace addnorm::kernels {
namespace {

// The constants of plan(); docs/kernels.csv has the measured gain of each.

constexpr std::size_t kLargeL1 = 48 << 10;  // separates Zen 4 from Zen 5, and 32 from 48 KB
constexpr double kMostOfCache = 0.75;       // of the last level: larger inputs come from memory
constexpr std::size_t kTile = 1024;         // γ, β and one row of it take 12 KB of L1
static_assert(kTile % kBlock == 0);         // rows are summed and written by whole blocks
constexpr std::size_t kGroup = kRowGroup;   // one root and one division serve four rows

constexpr std::size_t kRegisterRows = 8;  // two groups: one group alone waits for its sums
// for inputs in the last-level cache, up to a third of it
constexpr std::size_t kRegisterPrefetch = 1024;

constexpr std::size_t kOptionsFeatures = 1024;   // in the caches, with options
constexpr std::size_t kTwoPassFeatures = 256;    // two groups fit L1 twice over
constexpr std::size_t kTwoPassFromMemory = 128;  // wider rows stream better one by one
constexpr std::size_t kGroupPrefetch = 4096;     // bytes; a shorter distance is too late

constexpr std::size_t kGroupBytes = 2048;    // bytes of a row; four wider rows do not fit L1
constexpr std::size_t kWideFeatures = 2048;  // γ and β do not stay in L1, so rows share tiles
constexpr std::size_t kWideRows = 8;  // rows that share γ and β; they take at most half of L2
constexpr std::size_t kWidePrefetch = 3072;  // float32 forward

constexpr std::size_t kShortPrefetch = 512;  // bytes ahead where L1 is small
constexpr std::size_t kLongPrefetch = 4096;  // and if L1 is large

constexpr std::size_t kBackwardTwoPass = 128;      // float32 where L1 is small, and from memory
constexpr std::size_t kBackwardPipelined = 1024;   // float32 from memory, where L1 is small
constexpr std::size_t kBackwardPipelined16 = 512;  // 16 bits from memory, where L1 is small
constexpr std::size_t kBackwardPairs = 2;          // for 16 bits, if four rows do not stay in L1
constexpr std::size_t kBackwardGroupBytes = 1024;

/// Whether there are specialized loops for this case, besides those that test all options.
bool has_fast_loops(const Problem& problem, const Machine& machine) {
  const std::string_view set = machine.instruction_set;
  const bool mixed_float16 = problem.float16 && problem.stream_bytes == 4;
  return problem.plain && !mixed_float16 && (set == "avx512" || set == "avx2" || set == "neon");
}
bool fits_registers(const Problem& problem) {
  const std::size_t most = register_features(problem.stream_bytes);
  return problem.features >= 8 && problem.features <= most && std::has_single_bit(problem.features);
}
Plan from_registers() {
  return {.loop = Loop::kRegisters, .rows = kRegisterRows, .prefetch = kRegisterPrefetch};
}
/// Returns a plan for groups of rows: the next group is read before one is written.
Plan groups_in_two_passes() {
  return {.loop = Loop::kTwoPass, .rows = kGroup, .software_pipelined = true};
}
Plan two_pass(std::size_t rows, std::size_t prefetch = 0) {
  return {.loop = Loop::kTwoPass, .rows = rows, .prefetch = prefetch};
}
Plan options_in_two_passes(const Problem& problem, bool from_memory) {
  const std::size_t most = from_memory ? kTwoPassFeatures : kOptionsFeatures;
  return problem.features <= most ? groups_in_two_passes() : two_pass(1);
}
Plan pipelined(std::size_t rows, std::size_t prefetch = 0) {
  return {.loop = Loop::kPipelined, .rows = rows, .prefetch = prefetch};
}

Plan forward(const Problem& problem, const Machine& machine, bool from_memory) {
  const bool is_16_bit = problem.stream_bytes == 2;
  const std::size_t features = problem.features;
  const bool large_l1 = machine.l1 >= kLargeL1;
  if (features * problem.stream_bytes > kStagingBytes) return {.loop = Loop::kWide, .rows = 1};
  if (!has_fast_loops(problem, machine)) return options_in_two_passes(problem, from_memory);
  if (fits_registers(problem)) return from_registers();
  if (!problem.adds && features > kTwoPassFeatures) return two_pass(kGroup);
  if (is_16_bit) {
    if (features <= kTwoPassFeatures) return groups_in_two_passes();
    if (!from_memory || features * problem.stream_bytes <= kGroupBytes) return pipelined(kGroup);
    return pipelined(1, large_l1 ? kLongPrefetch : kShortPrefetch);
  }
  if (from_memory) {
    if (features <= kTwoPassFromMemory) return groups_in_two_passes();
    return pipelined(1, features < kWideFeatures ? 0 : kWidePrefetch);
  }
  if (features <= kTwoPassFeatures) return groups_in_two_passes();
  if (features < kWideFeatures) {
    return pipelined(features * problem.stream_bytes <= kGroupBytes ? kGroup : 1);
  }
  const std::size_t fit = machine.l2 / 2 / (features * problem.stream_bytes);
  return two_pass(std::clamp(fit, std::size_t{1}, kWideRows));
}

Plan backward(const Problem& problem, const Machine& machine, bool from_memory) {
  const std::size_t features = problem.features;
  const bool large_l1 = machine.l1 >= kLargeL1;
  if (!has_fast_loops(problem, machine)) return options_in_two_passes(problem, from_memory);
  if (fits_registers(problem)) return from_registers();
  if (problem.stream_bytes == 2) {
    const std::size_t single = large_l1 ? kBackwardPipelined : kBackwardPipelined16;
    if (from_memory && features >= single)
      return pipelined(1, large_l1 ? kLongPrefetch : kShortPrefetch);
    return pipelined(features * 2 <= kBackwardGroupBytes ? kGroup : kBackwardPairs);
  }
  if (features <= (from_memory ? kBackwardTwoPass : kTwoPassFeatures)) {
    return groups_in_two_passes();
  }
  if (!from_memory) return two_pass(1);
  if (large_l1) return two_pass(1, features * problem.stream_bytes);  // the next row
  return features < kBackwardPipelined ? two_pass(1) : pipelined(1, kShortPrefetch);
}

/// Non-temporal stores are faster if the outputs do not fit the cache together with the inputs. If
/// an input is overwritten, its lines are in the cache already. Then they are faster only for y of
/// a sum, and not for narrow rows.
Stores stores_of(const Problem& problem, const Machine& machine) {
  constexpr std::size_t kNarrow = 64;
  const bool fits = problem.bytes < machine.last_level;
  const bool whole_lines =
      problem.features * problem.stream_bytes % kLine == 0 || problem.features > kNarrow;
  const bool gains = !problem.in_place || (problem.direction == Direction::kForward &&
                                           problem.features > kNarrow && problem.adds);
  return fits || !problem.aligned || !whole_lines || !gains ? Stores::kCached
                                                            : Stores::kNonTemporal;
}

std::optional<Plan> forced;

}  // namespace

Plan plan(const Problem& problem, const Machine& machine) {
  const bool from_memory =
      static_cast<double>(problem.bytes) >= kMostOfCache * static_cast<double>(machine.last_level);
  Plan plan = problem.direction == Direction::kForward ? forward(problem, machine, from_memory)
                                                       : backward(problem, machine, from_memory);
  plan.from_memory = from_memory;
  plan.tile = kTile;
  plan.stores = stores_of(problem, machine);
  const std::size_t row_bytes = problem.features * problem.stream_bytes;
  if (from_memory && plan.rows > 1 && plan.rows <= kGroup && row_bytes <= kGroupBytes) {
    plan.prefetch = std::max((plan.rows + 1) * row_bytes, kGroupPrefetch);
  }
  // If rows have gaps, prefetching starts at least one row ahead, in the same columns.
  if (!problem.contiguous && plan.prefetch > 0) plan.prefetch = std::max(plan.prefetch, row_bytes);
  return plan;
}

std::string describe(const Plan& plan) {
  constexpr const char* kLoops[] = {"registers", "two-pass", "pipelined", "wide"};
  const bool by_tiles = plan.loop == Loop::kTwoPass && !plan.software_pipelined;
  return fmt::format("{}{}, {} row{}, {}{}, {} stores",
                     plan.software_pipelined ? "software-pipelined " : "",
                     kLoops[static_cast<int>(plan.loop)], plan.rows, plan.rows == 1 ? "" : "s",
                     by_tiles ? fmt::format("tile {}, ", plan.tile) : "",
                     plan.prefetch > 0 ? fmt::format("prefetch {} bytes ahead", plan.prefetch)
                                       : "hardware prefetch",
                     plan.stores == Stores::kCached ? "cached" : "non-temporal");
}

void force_plan(const std::optional<Plan>& plan) {
  forced = plan;
}

Plan plan_call(const Problem& problem) {
  if (!forced) return plan(problem, machine());
  Plan plan = *forced;
  // Non-temporal stores need aligned rows, and only loops that read from memory have them.
  if (!problem.aligned || !plan.from_memory) plan.stores = Stores::kCached;
  return plan;
}

}  // namespace addnorm::kernels
