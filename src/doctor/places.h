#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/subject.h"

/// What rules share: the places that they look at, and words for them.

namespace addnorm::doctor {

/// "layer 3, attention", "layer 3, feed-forward", "final norm", "embedding", "head".
std::string place_text(const Site& site);

/// The place, and which norm if the site is the output, a statistic or a parameter of one: "layer
/// 3, attention, norm before it".
std::string site_words(const Site& site);

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

/// Whether the stream has several lanes that the probe has measured.
bool has_lanes(const Subject& subject);

/// The fit, or an empty one where nothing was fitted.
template <typename Fit>
const Fit& fit_or_empty(const std::optional<Fit>& fit) {
  static const Fit kEmpty{};
  return fit ? *fit : kEmpty;
}

/// Calls body(entry) for every entry of the last step at a point.
template <typename Body>
void for_point(const Subject& subject, Point point, const Body& body) {
  for (const ProfileEntry& entry : last_entries(subject.profile)) {
    if (entry.site.point == point) body(entry);
  }
}

/// Calls body(entry, fit) for every sum of the last step.
template <typename Body>
void for_sums(const Subject& subject, const Body& body) {
  for_point(subject, Point::kSum,
            [&](const ProfileEntry& sum) { body(sum, fit_or_empty(sum.sum)); });
}

/// Calls body(entry, fit) for the output of every norm of the last step, without those in
/// attention.
template <typename Body>
void for_norms(const Subject& subject, const Body& body) {
  for (const ProfileEntry& entry : last_entries(subject.profile)) {
    if (norm_slot(entry.site)) body(entry, fit_or_empty(entry.norm));
  }
}

/// The same with those in attention, to which the declared norm of the network need not apply.
template <typename Body>
void for_all_norms(const Subject& subject, const Body& body) {
  for (const ProfileEntry& entry : last_entries(subject.profile)) {
    if (norm_slot(entry.site) || is_norm_in_attention(entry.site))
      body(entry, fit_or_empty(entry.norm));
  }
}

}  // namespace addnorm::doctor
