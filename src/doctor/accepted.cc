#include "doctor/accepted.h"

#include <algorithm>

namespace addnorm::doctor {
namespace {

/// Of places as findings have them: "layer 2" holds "layer 2, attention" and not "layer 20".
bool is_within(std::string_view where, std::string_view place) {
  if (!where.starts_with(place)) return false;
  const std::string_view rest = where.substr(place.size());
  return rest.empty() || rest.starts_with(',');
}

}  // namespace

bool is_accepted(const Finding& finding, std::span<const std::string> accepted) {
  return std::ranges::any_of(accepted, [&](std::string_view name) {
    const std::size_t at = name.find('@');
    if (name.substr(0, at) != finding.rule) return false;
    return at == name.npos || is_within(finding.where, name.substr(at + 1));
  });
}

}  // namespace addnorm::doctor
