#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/require.h"

namespace addnorm::io {

using Json = nlohmann::ordered_json;

/// The object that a text of JSON is. Throws Error with line and column where it is none, where a
/// key stands twice in one object, or where it is nested more than 32 deep; `file` is for messages.
Json parse_json(std::string_view text, const std::string& file);

/// The same for one of many lines, quickly: a key may stand twice, and the message is short.
Json parse_json_line(std::string_view line);

}  // namespace addnorm::io
