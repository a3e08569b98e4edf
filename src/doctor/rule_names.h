#pragma once

#include <span>
#include <string>
#include <string_view>

namespace addnorm::doctor {

/// Returns the names of all rules, sorted. docs/doctor.md has a paragraph for each of them.
std::span<const std::string_view> rule_names();

/// Throws an Error unless each of these is a rule's name, alone or with a place:
/// "residual-missing@layer 2". The message suggests the rule with the smallest edit distance.
void check_accepted(std::span<const std::string> accepted);

}  // namespace addnorm::doctor
