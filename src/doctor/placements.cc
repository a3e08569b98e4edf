#include "doctor/placements.h"

#include <fmt/format.h>

#include <algorithm>

#include "addnorm/error.h"

namespace addnorm::doctor {

Placements placements_of(const io::ProfileModel& model) {
  if (model.placement.empty() || model.n_layers == 0) return std::nullopt;
  try {
    return parse_placements(model.placement, model.n_layers);
  } catch (const Error&) {  // a name that is not in the table
    return std::nullopt;
  }
}

std::string by_placement(const Subject& subject) {
  const std::string& placement = subject.profile.model.placement;
  const bool is_known = !placement.empty() && placement != "unknown";
  return !is_known ? "" : fmt::format(", by the placement {}", placement);
}

const Placement* placement_at(const Placements& placements, const Site& site) {
  if (!placements || site.layer >= placements->size()) return nullptr;
  const BlockPlacement& block = (*placements)[site.layer];
  return site.sublayer == SublayerKind::kAttention ? &block.attention : &block.feed_forward;
}

const Placement* only_placement(const Placements& placements) {
  if (!placements) return nullptr;
  const Placement& first = placements->front().attention;
  const bool one = std::ranges::all_of(*placements, [&](const BlockPlacement& block) {
    return block.attention.name == first.name && block.feed_forward.name == first.name;
  });
  return one ? &first : nullptr;
}

std::optional<double> constant_factor(const ResidualFactor& factor, Depth depth) {
  if (factor.form != ResidualFactor::Form::kConstant) return std::nullopt;
  return factor.initial.value(depth);
}

}  // namespace addnorm::doctor
