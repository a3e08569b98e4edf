#include "io/shape.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

namespace addnorm::io {

std::string shape_text(const Shape& shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

std::optional<std::size_t> shape_bytes(const Shape& shape, std::size_t item_bytes) {
  std::size_t bytes = item_bytes;
  // The other sizes must fit even if one is zero: a caller may multiply them without it.
  for (const std::size_t size : shape) {
    const std::size_t factor = std::max<std::size_t>(size, 1);
    if (bytes > std::numeric_limits<std::size_t>::max() / factor) return std::nullopt;
    bytes *= factor;
  }
  return std::ranges::count(shape, 0u) > 0 ? 0 : bytes;
}

}  // namespace addnorm::io
