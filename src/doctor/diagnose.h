#pragma once

#include <vector>

#include "doctor/finding.h"
#include "doctor/subject.h"

namespace addnorm::doctor {

/// What all rules find: first what is broken, then what is suspicious, then notes. A rule looks at
/// a subject, and says nothing where what it needs was not measured; docs/doctor.md describes each
/// what it sees, its threshold and where that comes from, the fix, known exceptions.
std::vector<Finding> find_all(const Subject& subject);

/// That, with what follows from another finding beneath it.
std::vector<Finding> diagnose(const Subject& subject);

}  // namespace addnorm::doctor
