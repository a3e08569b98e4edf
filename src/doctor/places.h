#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/subject.h"

/// The places of a network and their names, which rules share.

namespace addnorm::doctor {

/// Returns "layer 3, attention", "layer 3, feed-forward", "final norm", "embedding" or "head".
std::string place_text(const Site& site);

/// Returns the place, with the norm if the site is a norm's output, statistic or parameter: "layer
/// 3, attention, norm before it".
std::string site_words(const Site& site);

/// Returns whether a name is `outer` or within it: "layer 2" contains "layer 2, attention" and not
/// "layer 20".
bool is_within(std::string_view name, std::string_view outer, char separator);

/// Returns the slot of the norm whose output an entry is; nothing for other entries.
std::optional<NormSlot> norm_slot(const Site& site);

/// Returns whether an entry is the output of a norm of queries, keys or values.
bool is_norm_in_attention(const Site& site);

/// Returns whether the stream has several lanes that the probe measured.
bool has_lanes(const Subject& subject);

/// Returns the fit, or an empty one.
template <typename Fit>
const Fit& fit_or_empty(const std::optional<Fit>& fit) {
  static const Fit kEmpty{};
  return fit ? *fit : kEmpty;
}

/// Returns whether the fit of a sum leaves too much, so that its factors are not judged.
bool is_unexplained(const probe::SumFit& fit);

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

/// The same including norms in attention, for which the network's declared norm need not hold.
template <typename Body>
void for_all_norms(const Subject& subject, const Body& body) {
  for (const ProfileEntry& entry : last_entries(subject.profile)) {
    if (norm_slot(entry.site) || is_norm_in_attention(entry.site))
      body(entry, fit_or_empty(entry.norm));
  }
}

}  // namespace addnorm::doctor
