#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace addnorm::model {

/// Parts that are not known here, by the keys of a config.json (or of its text_config) and the
/// names of tensors: "experts", "latent attention", "linear attention", … A family of ours may have
/// one of them in a form of its own.
std::vector<std::string_view> unknown_parts(const std::string& json,
                                            const std::vector<std::string>& tensors);

}  // namespace addnorm::model
