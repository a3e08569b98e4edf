#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "doctor/placements.h"
#include "doctor/places.h"
#include "doctor/rules.h"

/// Rules over the places that have a norm.

namespace addnorm::doctor {
namespace {

/// The slots before, inside and after that have a norm, as bits.
unsigned slots_of(const Subject& subject, std::size_t layer, SublayerKind sublayer) {
  unsigned slots = 0;
  for (const Point point : {Point::kBefore, Point::kInside, Point::kAfter}) {
    const ProfileEntry* entry = last_entry(subject, {layer, sublayer, point});
    slots = 2 * slots + (entry != nullptr ? 1 : 0);
  }
  return slots;
}

unsigned slots_of(const Placement& placement) {
  return 4 * unsigned{placement.before != Slot::kNothing} +
         2 * unsigned{placement.inside != Slot::kNothing} +
         unsigned{placement.after != Slot::kNothing};
}

std::string slots_text(unsigned slots) {
  std::vector<const char*> names;
  if (slots & 4) names.push_back("before it");
  if (slots & 2) names.push_back("on its branch");
  if (slots & 1) names.push_back("after the sum");
  return names.empty() ? "no norm" : fmt::format("a norm {}", fmt::join(names, " and "));
}

/// The slots that more than half of the layers have; nothing where there is no majority.
std::optional<unsigned> usual_slots(const Subject& subject, SublayerKind sublayer) {
  const std::size_t layers = subject.profile.model.n_layers;
  std::array<std::size_t, 8> counts{};
  for (std::size_t l = 0; l < layers; ++l) ++counts[slots_of(subject, l, sublayer)];
  const auto most = std::ranges::max_element(counts);
  if (2 * *most <= layers) return std::nullopt;
  return static_cast<unsigned>(most - counts.begin());
}

/// Whether a norm after the sum is that of one lane, for which the probe has no slot.
bool normalizes_a_lane(const Placement& placement) {
  return placement.lanes.several() && placement.after != Slot::kNothing;
}

}  // namespace

/// Compares a layer with the placement or, if no placement is known, with most layers.
void find_misplaced_norms(const Subject& subject, Findings& findings) {
  const bool any = std::ranges::any_of(last_entries(subject.profile), [](const ProfileEntry& e) {
    return e.site.sublayer != SublayerKind::kFinalNorm && norm_slot(e.site);
  });
  if (!any) return;  // no norm was measured
  if (subject.profile.model.placement == "unknown") return;
  const Placements placements = placements_of(subject.profile.model);
  for (const SublayerKind sublayer : {SublayerKind::kAttention, SublayerKind::kFeedForward}) {
    const std::optional<unsigned> usual = usual_slots(subject, sublayer);
    for (std::size_t l = 0; l < subject.profile.model.n_layers; ++l) {
      const Site site{l, sublayer, Point::kSum};
      if (last_entry(subject, site) == nullptr) continue;
      const Placement* placement = placement_at(placements, site);
      if (placement && normalizes_a_lane(*placement)) placement = nullptr;
      const std::optional<unsigned> expected = placement ? slots_of(*placement) : usual;
      const unsigned measured = slots_of(subject, l, sublayer);
      if (!expected || measured == *expected) continue;
      findings.push_back(
          {.rule = "norm-misplaced",
           .site = site,
           .what = fmt::format("has {}", slots_text(measured)),
           .because = placement ? fmt::format("{}{}", slots_text(*expected), by_placement(subject))
                                : fmt::format("{}, as most layers have", slots_text(*expected)),
           .fix = "check where the sublayer's norm is called, and whether its output is used"});
    }
  }
}

void find_missing_final_norm(const Subject& subject, Findings& findings) {
  const Placements placements = placements_of(subject.profile.model);
  const std::size_t layers = subject.profile.model.n_layers;
  const bool has_one = placements && placements->back().feed_forward.final_norm == Slot::kNorm;
  if (!subject.lacks_final_norm && !has_one) return;
  const auto at = [&](SublayerKind sublayer, Point point, std::size_t layer) {
    return last_entry(subject, {layer, sublayer, point});
  };
  const ProfileEntry* last = at(SublayerKind::kFeedForward, Point::kSum, layers - 1);
  // Without the model's files, the rule applies only if the probe measured a head without a norm
  // before it.
  const ProfileEntry* head = at(SublayerKind::kHead, Point::kOutput, layers);
  const bool is_measured = head != nullptr && head->reads_stream.value_or(1) != 0 &&
                           at(SublayerKind::kFinalNorm, Point::kOutput, layers) == nullptr;
  if (last != nullptr && last->lane) return;  // each lane may have its own norm
  if (last == nullptr || std::isnan(last->rms) || (!subject.lacks_final_norm && !is_measured))
    return;
  findings.push_back(
      {.rule = "final-norm",
       .site = Site{layers, SublayerKind::kFinalNorm, Point::kOutput},
       .where = "final norm",
       .what = fmt::format("it is missing: what follows reads the stream itself, with RMS {:.3g}",
                           last->rms),
       .because = fmt::format("a stack ends with a norm{}", by_placement(subject)),
       .fix = "normalize the stream after the last layer, before the head",
       .measured = last->rms,
       .expected = 1});
}

}  // namespace addnorm::doctor
