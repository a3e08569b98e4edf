#pragma once

#include <string>
#include <vector>

#include "doctor/finding.h"

namespace addnorm::doctor {

/// Moves each finding that follows from another one into the leads_to of that cause, so that one
/// bug is one finding. A finding that is more severe than its cause is not moved.
/// layer_modules: the paths of the layers' modules, if known.
void fold_consequences(std::vector<Finding>& findings,
                       const std::vector<std::string>& layer_modules);

}  // namespace addnorm::doctor
