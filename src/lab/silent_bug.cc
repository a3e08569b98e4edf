#include "lab/silent_bug.h"

#include <utility>

#include "base/find_named.h"

namespace addnorm::lab {
namespace {

using Map = MixForm::Map;

constexpr DepthFactor kOne{};
constexpr ResidualFactor kNoSkip{.initial = {"0", [](Depth) { return 0.0; }}};
constexpr ResidualFactor kSkipTwice{.initial = {"2", [](Depth) { return 2.0; }}};

constexpr MixForm kMeanOfLanes{.base = [](const Place& place, std::size_t, std::size_t) {
  return 1 / static_cast<double>(place.lanes);
}};

void in_every_sublayer(StackPlan& plan, void (*change)(Placement&)) {
  for (BlockPlacement& block : plan.placements) {
    change(block.attention);
    change(block.feed_forward);
  }
}
/// Replaces a factor that depends on depth by 1; a constant factor stays.
void lose_depth(DepthFactor& factor) {
  const bool varies =
      factor.value({1, 4}) != factor.value({1, 8}) || factor.value({1, 8}) != factor.value({5, 8});
  if (varies) factor = kOne;
}
/// Returns the attention in the middle of the stack.
Placement& one_sublayer(StackPlan& plan) {
  return plan.placements[plan.placements.size() / 2].attention;
}

constexpr SilentBug kBugs[] = {
    {"residual-missing", msg("one sublayer's output replaces the stream"),
     [](StackPlan& plan) { one_sublayer(plan).skip = kNoSkip; }},
    {"residual-twice", msg("one sublayer adds the stream twice"),
     [](StackPlan& plan) { one_sublayer(plan).skip = kSkipTwice; }},
    {"no-residual", msg("no sublayer adds the stream"),
     [](StackPlan& plan) { in_every_sublayer(plan, [](Placement& p) { p.skip = kNoSkip; }); }},
    {"norm-over-stream", msg("the normalized stream overwrites the stream itself"),
     [](StackPlan& plan) {
       in_every_sublayer(plan, [](Placement& p) {
         if (p.before == Slot::kNorm) std::swap(p.before, p.after);
       });
     }},
    {"norm-missing", msg("no sublayer has a norm"),
     [](StackPlan& plan) {
       in_every_sublayer(plan,
                         [](Placement& p) { p.before = p.inside = p.after = Slot::kNothing; });
       plan.final_norm = FinalNorm::kNo;
     }},
    {"final-norm-missing", msg("the final norm is missing"),
     [](StackPlan& plan) { plan.final_norm = FinalNorm::kNo; }},
    {"scale-lost", msg("all factors that should depend on depth are 1"),
     [](StackPlan& plan) {
       in_every_sublayer(plan, [](Placement& p) {
         for (DepthFactor* f :
              {&p.skip.initial, &p.gain.initial, &p.before_scale, &p.initial_gain}) {
           lose_depth(*f);
         }
       });
     }},
    {"rms-for-layer", msg("RMSNorm is used instead of LayerNorm"),
     [](StackPlan& plan) { plan.block.norm.kind = NormKind::kRms; }},
    {"alpha-doubled", msg("alpha of DyT and Derf starts at twice its intended value"),
     [](StackPlan& plan) { plan.block.norm.alpha *= 2; }},
    {"one-plus-gamma", msg("gamma, which is 1, is read as 1 + gamma"),
     [](StackPlan& plan) { plan.block.norm.output_scale = 2; }},
    {"epsilon-outside", msg("epsilon is added to the standard deviation, not to the variance"),
     [](StackPlan& plan) { plan.block.norm.epsilon_at = EpsilonAt::kDeviation; }},
    {"half-statistics",
     msg("a norm's mean and standard deviation are computed in float16, only in figures of a "
         "single norm"),
     [](StackPlan& plan) { plan.statistics = StatisticsType::kFloat16; }},
    {"transposed-carry",
     msg("lanes are mixed by the transpose of A, only in figures of the bare stream"),
     [](StackPlan& plan) { plan.carry = CarryUse::kTransposed; }},
    {"lanes-folded", msg("every sublayer replaces each lane by the mean of all lanes"),
     [](StackPlan& plan) {
       in_every_sublayer(plan, [](Placement& p) {
         if (!p.lanes.grows) p.lanes.carry = kMeanOfLanes;
       });
     }},
    {"sinkhorn-rows-only", msg("only the rows of a doubly stochastic A sum to 1"),
     [](StackPlan& plan) {
       in_every_sublayer(plan, [](Placement& p) {
         if (p.lanes.carry.map == Map::kSinkhorn) p.lanes.carry.map = Map::kSoftmax;
       });
     }},
    {"write-sigma", msg("lanes are written with σ instead of 2σ"),
     [](StackPlan& plan) {
       in_every_sublayer(plan, [](Placement& p) {
         if (p.lanes.write.map == Map::kTwoSigmoid) p.lanes.write.map = Map::kSigmoid;
       });
     }},
};

}  // namespace

std::span<const SilentBug> silent_bugs() {
  return kBugs;
}

const SilentBug& find_silent_bug(std::string_view name) {
  return find_named(silent_bugs(), "silent bug", name);
}

}  // namespace addnorm::lab
