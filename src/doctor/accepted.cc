#include "doctor/accepted.h"

#include <algorithm>

#include "doctor/places.h"

namespace addnorm::doctor {

bool is_accepted(const Finding& finding, std::span<const std::string> accepted) {
  return std::ranges::any_of(accepted, [&](std::string_view name) {
    const std::size_t at = name.find('@');
    if (name.substr(0, at) != finding.rule) return false;
    return at == name.npos || is_within(finding.where, name.substr(at + 1), ',');
  });
}

}  // namespace addnorm::doctor
