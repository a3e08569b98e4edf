#pragma once

/// The program's flags once more, as other programs want them. Nothing is said here that --help
/// does not say; commands without a group are hidden, here as there.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace addnorm::cli {

std::vector<const CLI::App*> visible_commands(const CLI::App& program);

/// A man page in the macros of man(7).
std::string man_page(const CLI::App& program);

/// Completion of commands, flags, choices and files.
std::string bash_completion(const CLI::App& program);
std::string fish_completion(const CLI::App& program);
std::string zsh_completion(const CLI::App& program);

/// The names of enumerators and of rows of tables, as JSON.
std::string names_json(const CLI::App& program);

}  // namespace addnorm::cli
