#pragma once

/// The program's flags in the formats of other programs. They contain the same text as --help, and
/// hide the same commands (those without a group).

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace addnorm::cli {

std::vector<const CLI::App*> visible_commands(const CLI::App& program);

/// Returns a man page in the macros of man(7).
std::string man_page(const CLI::App& program);

/// Return completion of commands, flags, choices and files.
std::string bash_completion(const CLI::App& program);
std::string fish_completion(const CLI::App& program);
std::string zsh_completion(const CLI::App& program);

/// Returns the names of enumerators and of rows of tables, as JSON.
std::string names_json(const CLI::App& program);

}  // namespace addnorm::cli
