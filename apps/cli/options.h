#pragma once

/// The kinds of flags that commands have. An invalid value throws an Error that names the flag.

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "addnorm/norm.h"
#include "base/require.h"

namespace addnorm::cli {

/// CLI11 takes "-1" for a value but "-.5" and "-inf" for flags. A space in front of a number hides
/// its sign; the flags below ignore the space.
std::string hide_sign(const std::string& argument);

/// Adds a flag with numbers, separated by spaces or commas.
CLI::Option* add_numbers(CLI::App& app, const std::string& flag, std::vector<double>& numbers,
                         const std::string& help);
/// Adds a flag with rows of numbers, separated by "/".
CLI::Option* add_rows(CLI::App& app, const std::string& flag,
                      std::vector<std::vector<double>>& rows, const std::string& help);
/// Adds a flag with one number.
CLI::Option* add_number(CLI::App& app, const std::string& flag, double& number,
                        const std::string& help);
CLI::Option* add_count(CLI::App& app, const std::string& flag, std::uint64_t& count,
                       const std::string& help);
/// Adds a flag with a list in one argument, separated by commas: whole numbers or names.
CLI::Option* add_counts(CLI::App& app, const std::string& flag, std::vector<std::size_t>& counts,
                        const std::string& help);
CLI::Option* add_list(CLI::App& app, const std::string& flag, std::vector<std::string>& names,
                      const std::string& help);
CLI::Option* add_file(CLI::App& app, const std::string& flag, std::string& file,
                      const std::string& help);

/// Adds a flag with one of the names; `choose` receives its index.
CLI::Option* add_choice(CLI::App& app, const std::string& flag,
                        const std::vector<std::string_view>& names,
                        const std::function<void(std::size_t)>& choose, const std::string& help);
/// Adds a flag with the name of one of the first `count` enumerators.
template <typename Enum>
CLI::Option* add_choice(CLI::App& app, const std::string& flag, Enum& value,
                        const std::string& help, std::size_t count = names_of(Enum{}).size()) {
  const auto names = names_of(Enum{});
  return add_choice(
      app, flag, {names.begin(), names.begin() + count},
      [&value](std::size_t place) { value = static_cast<Enum>(place); }, help);
}

/// Adds a flag without a value.
CLI::Option* add_switch(CLI::App& app, const std::string& flag, bool& is_on,
                        const std::string& help);

/// Returns the names of placements, as the type of a choice among them.
std::string placement_names();

/// Returns the help on --placement for the end of a help text.
std::string placement_help();

/// Adds --eps, --eps-at and --variance.
void add_norm_options(CLI::App& app, NormOptions& norm);

}  // namespace addnorm::cli
