#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace addnorm::io {

/// The sizes of a stored array, slowest first; empty for a single number.
using Shape = std::vector<std::size_t>;

/// Returns a shape in Python's notation: (), (3,), (2, 3).
std::string shape_text(const Shape& shape);

/// Returns the number of bytes of an array; nothing if the product does not fit a size_t.
std::optional<std::size_t> shape_bytes(const Shape& shape, std::size_t item_bytes);

}  // namespace addnorm::io
