#include "doctor/places.h"

#include <fmt/format.h>

namespace addnorm {

std::string place_text(const Site& site) {
  switch (site.sublayer) {
    case SublayerKind::kAttention:
      return fmt::format("layer {}, attention", site.layer);
    case SublayerKind::kFeedForward:
      return fmt::format("layer {}, feed-forward", site.layer);
    case SublayerKind::kEmbedding:
      return "embedding";
    case SublayerKind::kFinalNorm:
      return "final norm";
    default:
      return "head";
  }
}

std::string by_placement(const Subject& subject) {
  const std::string& placement = subject.profile.model.placement;
  return placement.empty() ? "" : fmt::format(", by the placement {}", placement);
}

const Placement* placement_at(const std::optional<std::vector<BlockPlacement>>& placements,
                              const Site& site) {
  if (!placements || site.layer >= placements->size()) return nullptr;
  const BlockPlacement& block = (*placements)[site.layer];
  return site.sublayer == SublayerKind::kAttention ? &block.attention : &block.feed_forward;
}

bool is_constant_sum(const Subject& subject, const Site& site) {
  const auto placements = placements_of(subject.profile.model);
  const Placement* placement = placement_at(placements, site);
  using Form = ResidualFactor::Form;
  return placement == nullptr || (placement->skip.form != Form::kLearnedVector &&
                                  placement->gain.form != Form::kLearnedVector);
}

std::optional<NormSlot> norm_slot(const Site& site) {
  switch (site.point) {
    case Point::kBefore:
      return NormSlot::kBefore;
    case Point::kInside:
      return NormSlot::kInside;
    case Point::kAfter:
      return NormSlot::kAfter;
    case Point::kOutput:
      if (site.sublayer == SublayerKind::kFinalNorm) return NormSlot::kFinal;
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace addnorm
