#include "doctor/subject.h"

#include <algorithm>
#include <utility>

#include "base/require.h"

namespace addnorm::doctor {

Subject read_profile_text(const std::string& text, const std::string& name) {
  std::vector<io::Profile> profiles = io::parse_profiles(text, name);
  require(!profiles.empty(), "{}: holds no profile", name);
  require(profiles.size() == 1, "{}: holds {} profiles, expected one", name, profiles.size());
  Subject subject{.name = name, .profile = std::move(profiles.back())};
  require(!subject.profile.entries.empty() || !subject.profile.checks.empty(),
          "{}: its profile has only its first line", name);
  return subject;
}

bool is_initial(const Subject& subject) {
  const io::Profile& profile = subject.profile;
  const std::size_t first = first_step(profile);
  if (subject.config) return first == 0;
  bool any = false;
  for (const ProfileEntry& entry : profile.entries) {
    if (entry.step != first) continue;
    if (entry.site.point == Point::kBeta && entry.abs_max != 0) return false;
    if (entry.site.point != Point::kGamma) continue;
    any = true;
    const bool starts = entry.std == 0 && (entry.mean == 1 || entry.mean == 0);
    if (!starts) return false;
  }
  return any;
}

std::size_t first_step(const io::Profile& profile) {
  return profile.entries.empty() ? 0 : profile.entries.front().step;
}

std::size_t last_step(const io::Profile& profile) {
  return profile.entries.empty() ? 0 : profile.entries.back().step;
}

std::span<const ProfileEntry> entries_of(const io::Profile& profile, std::size_t step) {
  const std::vector<ProfileEntry>& all = profile.entries;
  const auto first = std::ranges::lower_bound(all, step, {}, &ProfileEntry::step);
  const auto last = std::ranges::upper_bound(all, step, {}, &ProfileEntry::step);
  return {first, last};
}

const ProfileEntry* find_entry(const io::Profile& profile, std::size_t step, const Site& site) {
  const std::span<const ProfileEntry> entries = entries_of(profile, step);
  const auto found = std::ranges::find(entries, site, &ProfileEntry::site);
  return found == entries.end() ? nullptr : &*found;
}

}  // namespace addnorm::doctor
