#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/subject.h"

/// What rules share: the places that they look at, and words for them.

namespace addnorm::doctor {

/// "layer 3, attention", "layer 3, feed-forward", "final norm", "embedding", "head".
std::string place_text(const Site& site);

/// "layer 3, attention, norm before it", of a norm's output, statistics or parameters.
std::string norm_text(const Site& site);

/// Whether a name is `outer` or within it: "layer 2" holds "layer 2, attention" and not "layer 20".
bool is_within(std::string_view name, std::string_view outer, char separator);

/// ", by the placement pre", or nothing where the profile names none.
std::string by_placement(const Subject& subject);

/// Of the sublayer at a site; nullptr where it is not known.
const Placement* placement_at(const Placements& placements, const Site& site);

/// The placement of all sublayers, where they have the same one.
const Placement* only_placement(const Placements& placements);

/// skip or gain where it is a constant: learned factors may be anything.
std::optional<double> constant(const ResidualFactor& factor, Depth depth);

/// "its before norm" as a site, of the norm whose output an entry is; nothing for other entries.
std::optional<NormSlot> norm_slot(const Site& site);

/// Whether an entry is the output of a norm of queries, keys or values.
bool is_norm_in_attention(const Site& site);

/// Whether it is a lane of a sum, as the probe measures them: A·X + b ⊗ f, and no x + f.
inline bool is_of_lanes(const probe::ProfileEntry& sum) {
  return !std::isnan(sum.carry_in);
}

/// Whether the stream has several lanes that the probe has measured.
bool has_lanes(const Subject& subject);

/// Calls body(entry) for every sum of the last step.
template <typename Body>
void for_sums(const Subject& subject, const Body& body) {
  for (const probe::ProfileEntry& entry : last_entries(subject.profile)) {
    if (entry.site.point == Point::kSum) body(entry);
  }
}

/// Calls body(entry) for the output of every norm that was fitted in the last step.
template <typename Body>
void for_norms(const Subject& subject, const Body& body) {
  for (const probe::ProfileEntry& entry : last_entries(subject.profile)) {
    if (norm_slot(entry.site)) body(entry);
  }
}

/// Likewise of those within attention, too. What the network says of its norms need not hold there.
template <typename Body>
void for_all_norms(const Subject& subject, const Body& body) {
  for (const probe::ProfileEntry& entry : last_entries(subject.profile)) {
    if (norm_slot(entry.site) || is_norm_in_attention(entry.site)) body(entry);
  }
}

}  // namespace addnorm::doctor
