#pragma once

#include <span>
#include <string>
#include <string_view>

namespace addnorm::doctor {

/// The names of all rules, sorted. docs/doctor.md has a paragraph under each of them.
std::span<const std::string_view> rule_names();

/// Error unless each of these is a rule's name, alone or with a place: "residual-missing@layer 2".
/// The message has the name of a rule that is nearest by its edit distance.
void check_accepted(std::span<const std::string> accepted);

}  // namespace addnorm::doctor
