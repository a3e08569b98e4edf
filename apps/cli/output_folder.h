#pragma once

#include <string>
#include <vector>

namespace addnorm::cli {

/// Makes the folder of --out where it is missing. Returns these files' names in it; an Error if
/// they cannot be written there.
std::vector<std::string> prepare_outputs(const std::string& folder,
                                         const std::vector<std::string>& names);

}  // namespace addnorm::cli
