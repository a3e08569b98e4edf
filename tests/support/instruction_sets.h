#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "kernels/instruction_set.h"

namespace addnorm::testing {

/// Returns the instruction sets of this machine, the best first.
inline std::vector<std::string> all_instruction_sets() {
  std::istringstream list{std::string(kernels::instruction_sets())};
  std::vector<std::string> names;
  for (std::string name; std::getline(list >> std::ws, name, ',');) names.push_back(name);
  return names;
}

}  // namespace addnorm::testing
