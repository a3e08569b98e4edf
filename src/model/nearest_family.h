#pragma once

#include <string>
#include <vector>

namespace addnorm::model {

/// Returns a sentence about the supported family that is nearest to an unknown one. Among the
/// families that can read its config.json, it is the one with the same tensor names in its layers,
/// else the one with the most similar name. The sentence says how to try that family. If the model
/// has parts that no family here supports (unknown_parts), it names those instead.
std::string nearest_family(const std::string& name, const std::string& json,
                           const std::vector<std::string>& tensors);

}  // namespace addnorm::model
