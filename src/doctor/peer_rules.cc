#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "doctor/places.h"
#include "doctor/rules.h"

/// Rules that compare a place with the same place in the other layers. One that differs from all
/// its peers is named, whatever the formula of a network allows.

namespace addnorm::doctor {
namespace {

constexpr std::size_t kLeastPeers = 4;

/// A number at a place.
struct Seen {
  const probe::ProfileEntry* entry;
  double value;
};

/// Returns the one that differs, if all others are alike; nullptr otherwise. `is_alike` compares
/// two values; it must hold among all peers, and for none with the one that is returned.
template <typename Alike>
const Seen* odd_one_out(const std::vector<Seen>& all, const Alike& is_alike) {
  if (all.size() < kLeastPeers + 1) return nullptr;
  const Seen* odd = nullptr;
  for (const Seen& one : all) {
    const auto alike = std::ranges::count_if(
        all, [&](const Seen& other) { return is_alike(one.value, other.value); });
    if (static_cast<std::size_t>(alike) + 1 == all.size()) continue;  // all but the odd one
    if (alike > 1 || odd != nullptr) return nullptr;
    odd = &one;
  }
  return odd;
}

/// Returns the embedding, the sums and norms that leave the stream behind each sublayer, and the
/// streams that sublayers read, in their order.
std::vector<const probe::ProfileEntry*> stream_entries(const Subject& subject) {
  std::vector<const probe::ProfileEntry*> found;
  for (const probe::ProfileEntry& entry : last_entries(subject.profile)) {
    const Point point = entry.site.point;
    const bool is_embedding =
        entry.site.sublayer == SublayerKind::kEmbedding && point == Point::kOutput;
    const bool is_stream = entry.site.in_layer() &&
                           (point == Point::kX || point == Point::kSum || point == Point::kAfter);
    if ((is_embedding || is_stream) && entry.site.norm == NormSlot::kNone &&
        entry.site.projection == Projection::kNone)
      found.push_back(&entry);
  }
  return found;
}

/// "encoder.layer" of "encoder.layer.3": layers of other lists may have another stream.
std::string list_of(const Subject& subject, std::size_t layer) {
  const std::vector<std::string>& modules = subject.profile.model.layer_modules;
  if (layer >= modules.size()) return "";
  return modules[layer].substr(0, modules[layer].rfind('.'));
}

}  // namespace

void find_changed_streams(const Subject& subject, Findings& findings) {
  constexpr double kSame = 1e-3, kChanged = 0.02;
  if (has_lanes(subject)) return;
  std::vector<Seen> reads;  // with the RMS of what is read as a multiple of what was left
  const probe::ProfileEntry* left = nullptr;
  for (const probe::ProfileEntry* entry : stream_entries(subject)) {
    if (entry->site.point != Point::kX) {
      left = entry;
      continue;
    }
    const bool follows = left != nullptr && left->rms > 0 && std::isfinite(left->rms) &&
                         list_of(subject, left->site.layer) == list_of(subject, entry->site.layer);
    if (follows) reads.push_back({entry, entry->rms / left->rms});
  }
  const Seen* odd =
      odd_one_out(reads, [](double a, double b) { return std::abs(a - b) <= kSame * a; });
  if (odd == nullptr || !(std::abs(odd->value - 1) > kChanged)) return;
  findings.push_back(
      {.rule = "stream-changed",
       .severity = Severity::kSuspicious,
       .site = odd->entry->site,
       .where = place_text(odd->entry->site),
       .what = fmt::format("reads a stream whose RMS is {:.3g} times that of what the sublayer "
                           "before left",
                           odd->value),
       .because =
           fmt::format("the {} other sublayers read what the one before left", reads.size() - 1),
       .fix = "look between the two for a factor, a second addition, or a stream that was added to "
              "itself",
       .measured = odd->value,
       .expected = 1});
}

void find_odd_epsilon(const Subject& subject, Findings& findings) {
  constexpr double kOdd = 5;
  using Place = std::tuple<SublayerKind, Point, NormSlot, Projection>;
  std::map<Place, std::vector<Seen>> places;
  for_all_norms(subject, [&](const probe::ProfileEntry& norm) {
    const Site& site = norm.site;
    if (site.in_layer() && norm.declared_eps > 0)
      places[{site.sublayer, site.point, site.norm, site.projection}].push_back(
          {&norm, norm.declared_eps});
  });
  for (const auto& [place, norms] : places) {
    const Seen* odd = odd_one_out(
        norms, [](double a, double b) { return std::abs(std::log(a / b)) < std::log(kOdd); });
    if (odd == nullptr) continue;
    const Site& site = odd->entry->site;
    const double usual = (odd == &norms.front() ? norms[1] : norms.front()).value;
    const bool is_known = std::ranges::any_of(findings, [&](const Finding& finding) {
      return finding.site == site && finding.rule.starts_with("epsilon");
    });
    if (is_known) continue;
    findings.push_back({.rule = "epsilon-odd",
                        .severity = Severity::kSuspicious,
                        .site = site,
                        .where = norm_text(site),
                        .what = fmt::format("ε is {:.0e}", odd->value),
                        .because = fmt::format("the same norm of the {} other layers has {:.0e}",
                                               norms.size() - 1, usual),
                        .fix = fmt::format("set ε to {:.0e}", usual),
                        .measured = odd->value,
                        .expected = usual});
  }
}

}  // namespace addnorm::doctor
