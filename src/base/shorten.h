#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace addnorm {
inline namespace base {

/// UTF-8 text of at most `most` bytes, 3 or more: where it is longer, its middle is left out for an
/// ellipsis. What a message says of a long name stands before and behind it.
std::string shorten(std::string_view text, std::size_t most);

}  // namespace base
}  // namespace addnorm
