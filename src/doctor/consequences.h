#pragma once

#include <vector>

#include "doctor/finding.h"

namespace addnorm::doctor {

/// Moves findings that follow from another one into its leads_to, so that one bug is one finding. A
/// finding worse than its cause stays.
void fold_consequences(std::vector<Finding>& findings);

}  // namespace addnorm::doctor
