#pragma once

#include <string>

#include "addnorm/nn/placement.h"

namespace addnorm::report {

/// A placement in words and formulas: a line with its name, who uses it and where it is described,
/// then what it computes.
std::string placement_text(const Placement& placement);
std::string mixture_text(const Mixture& mixture);

}  // namespace addnorm::report
