#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "doctor/finding.h"
#include "doctor/subject.h"

namespace addnorm {

/// A rule: looks at a subject and reports what it finds. docs/doctor.md has a page for each: what
/// it sees, its threshold and where that comes from, the fix, known exceptions. A rule says nothing
/// where what it needs was not measured.
struct Rule {
  std::string_view name;
  std::string_view meaning;
  void (*look)(const Subject& subject, std::vector<Finding>& findings);
};
std::span<const Rule> rules();

/// What all rules find, worst first.
std::vector<Finding> diagnose(const Subject& subject);

}  // namespace addnorm
