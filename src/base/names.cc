#include "addnorm/names.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/require.h"

namespace addnorm {

std::size_t find_name(std::string_view what, std::string_view name,
                      std::span<const std::string_view> names) {
  const auto found = std::ranges::find(names, name);
  if (found != names.end() && !name.empty()) return static_cast<std::size_t>(found - names.begin());
  std::vector<std::string_view> expected(names.begin(), names.end());
  std::erase(expected, "");
  fail(fmt::format("{} \"{}\" is unknown, must be one of {}", what, name,
                   fmt::join(expected, ", ")));
}

}  // namespace addnorm
