#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "addnorm/api.h"

/// \file
/// The names of enumerators in commands, files and other languages. An enum whose values are 0, 1,
/// … declares its names next to it, in the same order:
///
///     enum class Variance { kPopulation, kUnbiased };
///     constexpr std::array<std::string_view, 2> names_of(Variance) { return {"population", …}; }

namespace addnorm {

/// Returns the name of a value: "population" for Variance::kPopulation.
template <typename Enum>
requires requires(Enum value) {
  names_of(value);
}
constexpr std::string_view to_string(Enum value) {
  return names_of(value)[static_cast<std::size_t>(value)];
}

/// Returns the index of `name` among `names`. If there is none, throws an Error that begins with
/// `what` and lists them.
ADDNORM_API std::size_t find_name(std::string_view what, std::string_view name,
                                  std::span<const std::string_view> names);

/// Returns the value of a name: Variance::kPopulation for "population". Throws an Error as in
/// find_name.
template <typename Enum>
Enum parse(std::string_view what, std::string_view name) {
  return static_cast<Enum>(find_name(what, name, names_of(Enum{})));
}

}  // namespace addnorm
