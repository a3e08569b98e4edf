#pragma once

#include <vector>

#include "doctor/finding.h"

namespace addnorm::doctor {

/// Moves each finding that follows from another one into the leads_to of that cause, so that one
/// bug is one finding. A finding that is more severe than its cause is not moved.
void fold_consequences(std::vector<Finding>& findings);

}  // namespace addnorm::doctor
