#pragma once

#include <string>
#include <vector>

namespace addnorm::model {

/// Which family that is known here is nearest to one that is not, in words: of those that can read
/// its config.json, the one whose names the tensors of its layers have; then the one whose name has
/// the fewest other letters. How to try it as well, unless it has parts that no family here has
/// (unknown_parts); those are named then.
std::string nearest_family(const std::string& name, const std::string& json,
                           const std::vector<std::string>& tensors);

}  // namespace addnorm::model
