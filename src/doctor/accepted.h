#pragma once

#include <span>
#include <string>
#include <string_view>

#include "doctor/finding.h"

namespace addnorm::doctor {

/// Whether one of these names the finding: a rule, or a rule at a place, as in
/// "residual-missing@layer 2, attention" or, of all within, "residual-missing@layer 2".
bool is_accepted(const Finding& finding, std::span<const std::string> accepted);

}  // namespace addnorm::doctor
