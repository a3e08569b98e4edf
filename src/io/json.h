#pragma once

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/require.h"

namespace addnorm::io {

using Json = nlohmann::ordered_json;

/// Whether the value can be read as a T: a whole number ≥ 0, a number, a text, true or false, or a
/// list of these.
template <typename T>
bool fits(const Json& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value.is_boolean();
  } else if constexpr (std::is_same_v<T, std::string>) {
    return value.is_string();
  } else if constexpr (std::is_floating_point_v<T>) {
    return value.is_number();
  } else if constexpr (std::is_unsigned_v<T>) {
    return value.is_number_unsigned() ||
           (value.is_number_integer() && value.get<std::int64_t>() >= 0);
  } else {
    return value.is_array() && std::ranges::all_of(value, fits<typename T::value_type>);
  }
}

/// The object that a text of JSON is. Throws Error with line and column where it is none, where a
/// key stands twice in one object, or where it is nested more than 32 deep; `file` is for messages.
Json parse_json(std::string_view text, const std::string& file);

/// The same for one of many lines, quickly: a key may stand twice, and the message is short.
Json parse_json_line(std::string_view line);

}  // namespace addnorm::io
