#pragma once

#include <fmt/ranges.h>

#include <span>
#include <string_view>
#include <vector>

#include "base/require.h"

namespace addnorm {

/// The one of `all` with this name; an Error that calls it a `kind` and lists the names if there is
/// none.
template <typename T>
const T& find_named(std::span<const T> all, std::string_view kind, std::string_view name) {
  std::vector<std::string_view> names;
  for (const T& one : all) {
    if (one.name == name) return one;
    names.push_back(one.name);
  }
  fail(fmt::format("{} \"{}\" is unknown, must be one of {}", kind, name, fmt::join(names, ", ")));
}

}  // namespace addnorm
