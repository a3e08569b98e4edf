#pragma once

#include <string>
#include <vector>

namespace addnorm::cli {

/// Creates the folder of --out if needed. Returns these files' names in it; throws an Error if they
/// cannot be written.
std::vector<std::string> prepare_outputs(const std::string& folder,
                                         const std::vector<std::string>& names);

}  // namespace addnorm::cli
