#pragma once

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "doctor/diagnose.h"
#include "doctor/rules.h"

/// Profiles for the tests of the doctor's rules, and the findings in them.

namespace addnorm::doctor {

/// Returns the entry at a site of the last step; a new one if there is none.
inline ProfileEntry& at(Subject& subject, const Site& site) {
  for (ProfileEntry& entry : subject.profile.entries) {
    if (entry.site == site) return entry;
  }
  return subject.profile.entries.emplace_back(ProfileEntry{.step = 7, .site = site});
}
inline ProfileEntry& at(Subject& subject, std::size_t layer, SublayerKind sublayer, Point point) {
  return at(subject, Site{layer, sublayer, point});
}

inline probe::SumFit& sum_at(Subject& subject, std::size_t layer, SublayerKind sublayer) {
  return at(subject, layer, sublayer, Point::kSum).sum.value();
}

/// Returns the fit of the norm before a sublayer; a new one if there is none.
inline probe::NormFit& norm_at(Subject& subject, std::size_t layer, SublayerKind sublayer) {
  ProfileEntry& entry = at(subject, layer, sublayer, Point::kBefore);
  if (!entry.norm) entry.norm.emplace();
  return *entry.norm;
}

/// Returns the divisor of a sound norm over rows of deviation 1.
inline probe::DivisorFit sound_divisor() {
  return {.divisor = 1, .deviation = 1, .scale = 1, .noise = 1e-7};
}

/// Returns two layers of a trained pre-norm network, of which only sound sums are known.
inline Subject sound() {
  Subject subject;
  subject.profile.model = {.d_model = 8, .n_layers = 2, .placement = "pre", .norm = NormKind::kRms};
  for (const std::size_t layer : {0, 1}) {
    for (const SublayerKind sublayer : {SublayerKind::kAttention, SublayerKind::kFeedForward}) {
      for (const Point point : {Point::kX, Point::kBranch, Point::kSum}) {
        ProfileEntry& entry = at(subject, layer, sublayer, point);
        entry.rms = point == Point::kBranch ? 0.5 : 1;
        entry.abs_max = 4 * entry.rms;
        entry.abs_median = 0.7 * entry.rms;
      }
      at(subject, layer, sublayer, Point::kSum).sum = {
          .from_x = 1, .from_before = 0, .from_branch = 1, .unexplained = 0};
    }
  }
  return subject;
}

/// Returns "rule, where" for each finding; " (note)" follows a note.
inline std::vector<std::string> words_of(const std::vector<Finding>& findings) {
  std::vector<std::string> list;
  for (const Finding& f : findings) {
    list.push_back(std::string(f.rule) + ", " + f.where +
                   (f.severity == Severity::kNote ? " (note)" : ""));
  }
  return list;
}

inline std::vector<std::string> found(const Subject& subject) {
  return words_of(diagnose(subject));
}

/// Returns the findings of one rule.
inline Findings findings_of(Rule* rule, const Subject& subject) {
  Findings findings;
  rule(subject, findings);
  return findings;
}

/// Returns the name of the first finding of one rule, or "".
inline std::string first_found(Rule* rule, const Subject& subject) {
  const Findings findings = findings_of(rule, subject);
  return findings.empty() ? "" : std::string(findings.front().rule);
}

}  // namespace addnorm::doctor
