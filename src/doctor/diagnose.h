#pragma once

#include <vector>

#include "doctor/finding.h"
#include "doctor/subject.h"

namespace addnorm::doctor {

/// Returns the findings of all rules: first broken parts, then suspicious ones, then notes. A rule
/// finds nothing if its measurements are missing. docs/doctor.md describes each rule: its
/// measurements, its threshold with a source, the fix, known exceptions.
std::vector<Finding> find_all(const Subject& subject);

/// Returns find_all() with consequences moved into their causes (fold_consequences).
std::vector<Finding> diagnose(const Subject& subject);

}  // namespace addnorm::doctor
