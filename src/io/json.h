#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/require.h"

namespace addnorm::io {

using Json = nlohmann::ordered_json;

/// Returns whether the value can be read as a T: a whole number ≥ 0, a number, a text, true or
/// false, or a list of these.
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

/// The most bytes of a JSON text: the limit of the reference implementation of safetensors for
/// headers.
inline constexpr std::size_t kMostJsonBytes = 100'000'000;

/// Reads a text that is one JSON object. All JSON from outside is read by this function or the two
/// below. Throws an Error if the text is not JSON, too large, nested more than 32 deep, or has a
/// key twice in one object. The message names `source`, line and column, the text found there and
/// what was expected.
Json parse_json(std::string_view text, const std::string& source);

/// Reads a text like parse_json(). Returns nothing in place of an error.
std::optional<Json> try_parse_json(std::string_view text);

/// Reads a file like parse_json().
Json read_json(const std::string& file);

/// Returns the value as JSON for a message, shortened to 100 bytes.
std::string excerpt(const Json& value);

}  // namespace addnorm::io
