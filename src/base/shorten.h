#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace addnorm {
inline namespace base {

/// Returns UTF-8 text of at most `most` bytes, 3 or more. In longer text an ellipsis replaces the
/// middle.
std::string shorten(std::string_view text, std::size_t most);

}  // namespace base
}  // namespace addnorm
