#include "doctor/accepted.h"

#include <algorithm>

#include "doctor/places.h"

namespace addnorm::doctor {

bool is_accepted(const Finding& finding, std::span<const std::string> accepted) {
  return std::ranges::any_of(accepted, [&](std::string_view name) {
    const std::size_t at = name.find('@');
    if (name.substr(0, at) != finding.rule) return false;
    if (at == name.npos) return true;
    const std::string_view place = name.substr(at + 1);
    return is_within(finding.where, place, ',') || is_within(finding.where, place, '.') ||
           (finding.site && is_within(site_words(*finding.site), place, ','));
  });
}

}  // namespace addnorm::doctor
