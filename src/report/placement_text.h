#pragma once

#include <string>

#include "addnorm/nn/placement.h"

namespace addnorm::report {

/// Returns a placement in words and formulas: a line with its name, its users and its source, then
/// its computation.
std::string placement_text(const Placement& placement);
std::string mixture_text(const Mixture& mixture);

}  // namespace addnorm::report
