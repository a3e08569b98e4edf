#pragma once

#include <string>
#include <vector>

namespace addnorm::model {

/// Which family that is known here is nearest to one that is not, and how to try it, in words: the
/// one whose names its first layer's tensors have, then one that can read its config.json, then one
/// whose name has the fewest other letters.
std::string nearest_family(const std::string& name, const std::string& json,
                           const std::vector<std::string>& tensors);

}  // namespace addnorm::model
