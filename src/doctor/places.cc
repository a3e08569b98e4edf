#include "doctor/places.h"

#include <fmt/format.h>

#include <algorithm>

namespace addnorm::doctor {

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

namespace {

const char* slot_name(NormSlot slot) {
  switch (slot) {
    case NormSlot::kBefore:
      return ", norm before it";
    case NormSlot::kInside:
      return ", norm of its branch";
    case NormSlot::kAfter:
      return ", norm after it";
    default:
      return "";
  }
}

}  // namespace

std::string site_words(const Site& site) {
  const NormSlot slot =
      site.norm != NormSlot::kNone ? site.norm : norm_slot(site).value_or(NormSlot::kNone);
  if (site.projection == Projection::kQuery) return place_text(site) + ", norm of queries";
  if (site.projection == Projection::kKey) return place_text(site) + ", norm of keys";
  if (site.projection == Projection::kValue) return place_text(site) + ", norm of values";
  return place_text(site) + slot_name(slot);
}

bool is_within(std::string_view name, std::string_view outer, char separator) {
  if (!name.starts_with(outer)) return false;
  const std::string_view rest = name.substr(outer.size());
  return rest.empty() || rest.starts_with(separator);
}

bool has_lanes(const Subject& subject) {
  return std::ranges::any_of(subject.profile.entries,
                             [](const ProfileEntry& entry) { return entry.lane.has_value(); });
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

bool is_norm_in_attention(const Site& site) {
  return site.sublayer == SublayerKind::kAttention && site.point == Point::kOutput &&
         site.projection != Projection::kNone;
}

bool is_unexplained(const probe::SumFit& fit) {
  return fit.unexplained.value_or(0) > 0.02;
}

}  // namespace addnorm::doctor
