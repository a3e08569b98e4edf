#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace addnorm::model {

/// Returns the unsupported parts of a model: "experts", "latent attention", "linear attention", …
/// It recognizes them by the keys of a config.json (or of its text_config) and the names of
/// tensors. A supported family may have one of them in its own form.
std::vector<std::string_view> unknown_parts(const std::string& json,
                                            const std::vector<std::string>& tensors);

}  // namespace addnorm::model
