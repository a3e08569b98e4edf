#pragma once

#include <vector>

#include "doctor/finding.h"

namespace addnorm::doctor {

/// One bug, one finding: what follows from another finding goes into its leads_to. Nothing that is
/// worse than its cause is taken away.
void fold_consequences(std::vector<Finding>& findings);

}  // namespace addnorm::doctor
