#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "doctor/places.h"
#include "doctor/rules.h"

/// Rules that compare a place with its peers: the same place in the other layers. A place that
/// differs from all its peers is reported, even if the placement allows it. find_changed_streams
/// first takes all sublayers as peers. find_gated_streams needs no peers.

namespace addnorm::doctor {
namespace {

constexpr std::size_t kLeastPeers = 4;

/// A number at a place.
struct Measured {
  Site site;
  double value;
};

/// A place that differs from all its peers: its value, their usual value, and their count.
struct Odd {
  Site site;
  double value;
  double usual;
  std::size_t n_peers;
};

/// Returns the only place that differs, or nothing. `is_alike` compares two values. A place differs
/// if all others are alike and none is like it.
template <typename Alike>
std::optional<Odd> odd_one_out(const std::vector<Measured>& all, const Alike& is_alike) {
  if (all.size() < kLeastPeers + 1) return std::nullopt;
  const Measured* odd = nullptr;
  for (const Measured& one : all) {
    const auto alike = std::ranges::count_if(
        all, [&](const Measured& other) { return is_alike(one.value, other.value); });
    if (static_cast<std::size_t>(alike) + 1 == all.size()) continue;  // only one differs from it
    if (alike > 1 || odd != nullptr) return std::nullopt;
    odd = &one;
  }
  if (odd == nullptr) return std::nullopt;
  return Odd{odd->site, odd->value, (odd == &all.front() ? all[1] : all.front()).value,
             all.size() - 1};
}

bool has_finding_at(const Findings& findings, const Site& site, std::string_view prefix = "") {
  return std::ranges::any_of(findings, [&](const Finding& finding) {
    return finding.site == site && finding.rule.starts_with(prefix);
  });
}

/// Returns a finding at the odd place, with the rule's texts.
Finding finding_of(const Odd& odd, std::string_view rule, std::string what, std::string because,
                   std::string fix) {
  return {.rule = rule,
          .severity = Severity::kSuspicious,
          .site = odd.site,
          .what = std::move(what),
          .because = std::move(because),
          .fix = std::move(fix),
          .measured = odd.value,
          .expected = odd.usual};
}

/// The input of a sublayer as a·s + b·h + c·x. s is the sum of the sublayer before it, h the output
/// of that sublayer's norm, x that sublayer's input. c is not kept: if a and b are about 0, the
/// sublayer reads x.
struct Passage {
  Site site;
  double from_sum, from_norm;

  bool is_changed() const {
    constexpr double kChanged = 0.02;
    return std::abs(from_sum - 1) > kChanged || std::abs(from_norm) > kChanged;
  }
};

/// Returns the only changed passage, if there are enough unchanged ones.
std::optional<Passage> odd_passage(const std::vector<Passage>& all) {
  const auto odd = std::ranges::find_if(all, &Passage::is_changed);
  if (all.size() < kLeastPeers + 1 || std::ranges::count_if(all, &Passage::is_changed) != 1)
    return std::nullopt;
  return *odd;
}

Finding changed_stream(const Passage& passage) {
  const bool reads_previous_input =
      std::abs(passage.from_sum) < 0.05 && std::abs(passage.from_norm) < 0.05;
  const bool reads_norm = std::abs(passage.from_norm) >= 0.02;
  const std::string norm = reads_norm ? fmt::format(" + {:.2f}·h", passage.from_norm) : "";
  return {.rule = "stream-changed",
          .severity = Severity::kSuspicious,
          .site = passage.site,
          .what = reads_previous_input
                      ? "reads the input of the previous sublayer, not its sum"
                      : fmt::format("reads {:.2f}·s{}, where s is the previous sublayer's sum{}",
                                    passage.from_sum, norm,
                                    reads_norm ? " and h the output of its norm" : ""),
          .because = "the previous sublayer's sum, as in the other sublayers",
          .fix = reads_previous_input
                     ? "pass the previous sublayer's sum to this sublayer"
                     : "look between the previous sublayer and this one for a factor, a second "
                       "addition, or a stream that is added to itself",
          .measured = passage.from_sum,
          .expected = 1};
}

}  // namespace

/// Compares all sublayers. If more than one differs, it compares those of each kind: a bug of a
/// whole layer changes both of its sublayers, one of each kind.
void find_changed_streams(const Subject& subject, Findings& findings) {
  std::vector<Passage> all;
  std::map<SublayerKind, std::vector<Passage>> by_kind;
  for_point(subject, Point::kX, [&](const ProfileEntry& x) {
    if (!x.site.in_layer()) return;
    const probe::InputFit& fit = fit_or_empty(x.input);
    all.push_back({x.site, fit.from_left.value_or(1), fit.from_left_norm.value_or(0)});
    by_kind[x.site.sublayer].push_back(all.back());
  });
  if (const std::optional<Passage> odd = odd_passage(all)) {
    findings.push_back(changed_stream(*odd));
    return;
  }
  for (const auto& [kind, passages] : by_kind)
    if (const std::optional<Passage> odd = odd_passage(passages))
      findings.push_back(changed_stream(*odd));
}

void find_gated_streams(const Subject& subject, Findings& findings) {
  for_point(subject, Point::kX, [&](const ProfileEntry& x) {
    const probe::InputFit& fit = fit_or_empty(x.input);
    if (!fit.stream_gain) return;
    findings.push_back(
        {.rule = "stream-gated",
         .severity = Severity::kSuspicious,
         .site = x.site,
         .what = fmt::format("the previous sublayer's sum is multiplied by a gate, whose root mean "
                             "square is {:.2g}",
                             *fit.stream_gain),
         .because = "x + g ⊙ f: a gate multiplies the branch alone, so that the stream keeps what "
                    "earlier layers added",
         .fix = "multiply the branch by the gate, before the sum; leave the stream as it is",
         .measured = *fit.stream_gain,
         .expected = 1});
  });
}

void find_odd_sums(const Subject& subject, Findings& findings) {
  constexpr double kLeastDifference = 0.1;
  std::map<SublayerKind, std::vector<Measured>> streams, branches;
  for_sums(subject, [&](const ProfileEntry& sum, const probe::SumFit& fit) {
    if (!sum.site.in_layer() || !fit.from_x || !fit.from_branch) return;
    streams[sum.site.sublayer].push_back({sum.site, *fit.from_x + fit.from_before.value_or(0)});
    branches[sum.site.sublayer].push_back({sum.site, *fit.from_branch});
  });
  const auto add_odd = [&](const std::vector<Measured>& sums, const char* part) {
    const auto odd =
        odd_one_out(sums, [](double a, double b) { return std::abs(a - b) < kLeastDifference; });
    if (!odd || has_finding_at(findings, odd->site)) return;
    findings.push_back(finding_of(
        *odd, "sum-odd", fmt::format("the sum adds {:.3g} times the {}", odd->value, part),
        fmt::format("{:.3g} times in the {} other layers", odd->usual, odd->n_peers),
        "use one factor in all layers, or declare the different factor in the config"));
  };
  for (const auto& [kind, sums] : streams) add_odd(sums, "stream");
  for (const auto& [kind, sums] : branches) add_odd(sums, "branch");
}

void find_odd_scales(const Subject& subject, Findings& findings) {
  constexpr double kLeastRelativeDifference = 0.05;
  std::map<std::pair<SublayerKind, Point>, std::vector<Measured>> places;
  for_norms(subject, [&](const ProfileEntry& norm, const probe::NormFit& fit) {
    const bool has_slope = norm.site.in_layer() && fit.divisor && fit.divisor->slope;
    if (has_slope && *fit.divisor->slope > 0)
      places[{norm.site.sublayer, norm.site.point}].push_back(
          {norm.site, 1 / std::sqrt(*fit.divisor->slope)});
  });
  for (const auto& [place, norms] : places) {
    const auto odd = odd_one_out(
        norms, [](double a, double b) { return std::abs(a / b - 1) < kLeastRelativeDifference; });
    if (!odd || has_finding_at(findings, odd->site)) continue;
    findings.push_back(
        finding_of(*odd, "norm-scale-odd",
                   fmt::format("its output is {:.3g} times the normalized row", odd->value),
                   fmt::format("{:.3g} times in the {} other layers", odd->usual, odd->n_peers),
                   "use one factor in all layers"));
  }
}

void find_odd_epsilon(const Subject& subject, Findings& findings) {
  constexpr double kLeastRatio = 5;
  using Place = std::tuple<SublayerKind, Point, NormSlot, Projection>;
  std::map<Place, std::vector<Measured>> places;
  for_all_norms(subject, [&](const ProfileEntry& norm, const probe::NormFit& fit) {
    const Site& site = norm.site;
    const double epsilon = fit.declared_eps.value_or(0);
    if (site.in_layer() && epsilon > 0)
      places[{site.sublayer, site.point, site.norm, site.projection}].push_back({site, epsilon});
  });
  for (const auto& [place, norms] : places) {
    const auto odd = odd_one_out(norms, [](double a, double b) {
      return std::abs(std::log(a / b)) < std::log(kLeastRatio);
    });
    if (!odd || has_finding_at(findings, odd->site, "epsilon")) continue;
    findings.push_back(finding_of(
        *odd, "epsilon-odd", fmt::format("ε is {:.0e}", odd->value),
        fmt::format("the same norm in the {} other layers has {:.0e}", odd->n_peers, odd->usual),
        fmt::format("set ε to {:.0e}", odd->usual)));
  }
}

}  // namespace addnorm::doctor
