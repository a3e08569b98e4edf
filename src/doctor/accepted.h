#pragma once

#include <span>
#include <string>
#include <string_view>

#include "doctor/finding.h"

namespace addnorm::doctor {

/// Returns whether one of these names the finding. A name is a rule, or a rule at a place, such as
/// "residual-missing@layer 2, attention", or "residual-missing@layer 2" for all places within.
bool is_accepted(const Finding& finding, std::span<const std::string> accepted);

}  // namespace addnorm::doctor
