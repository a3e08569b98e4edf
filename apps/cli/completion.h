#pragma once

/// What the completions of all shells have in common.

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace addnorm::cli {

enum class Takes { kNothing, kAnything, kWords, kFiles, kFolders };

/// By the name of the option's type, or an argument's own name where it has none: "a|b" is a choice
/// of words; FILE, RUN and TARGET are files, DIR a folder.
Takes takes(const CLI::Option& option);
bool takes_several(const CLI::Option& option);
/// The words of "a|b", with spaces between.
std::string words_of(const CLI::Option& option);
/// -h and --help
std::vector<std::string> flags_of(const CLI::Option& option);
/// `text` with a backslash before each of `characters`.
std::string escape(const std::string& text, std::string_view characters);

}  // namespace addnorm::cli
