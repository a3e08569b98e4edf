#pragma once

#include <fmt/ranges.h>

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/require.h"

namespace addnorm {
inline namespace base {

/// Returns the element of `all` with this name. If there is none, throws an Error that calls it a
/// `kind` and lists the names. `name_of` returns an element's name.
template <typename T, typename NameOf = std::string_view T::*>
const T& find_named(std::span<const T> all, std::string_view kind, std::string_view name,
                    NameOf name_of = &T::name) {
  std::vector<std::string_view> names;
  for (const T& one : all) {
    if (std::invoke(name_of, one) == name) return one;
    names.push_back(std::invoke(name_of, one));
  }
  fail(fmt::format("{} \"{}\" is unknown, must be one of {}", kind, name, fmt::join(names, ", ")));
}

}  // namespace base
}  // namespace addnorm
