#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "addnorm/api.h"

/// \file
/// The names of enumerators, as commands, files and other languages write them. An enum whose
/// values are 0, 1, … has its names beside it, in their order:
///
///     enum class Variance { kPopulation, kUnbiased };
///     constexpr std::array<std::string_view, 2> names_of(Variance) { return {"population", …}; }

namespace addnorm {

/// "population" of Variance::kPopulation.
template <typename Enum>
requires requires(Enum value) {
  names_of(value);
}
constexpr std::string_view to_string(Enum value) {
  return names_of(value)[static_cast<std::size_t>(value)];
}

/// The place of `name` among `names`; an Error that begins with `what` and lists them if there is
/// none.
ADDNORM_API std::size_t find_name(std::string_view what, std::string_view name,
                                  std::span<const std::string_view> names);

/// Variance::kPopulation of "population"; an Error as in find_name if there is none.
template <typename Enum>
Enum parse(std::string_view what, std::string_view name) {
  return static_cast<Enum>(find_name(what, name, names_of(Enum{})));
}

}  // namespace addnorm
