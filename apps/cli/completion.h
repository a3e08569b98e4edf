#pragma once

/// The part that the completions of all shells share.

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace addnorm::cli {

enum class Takes { kNothing, kAnything, kWords, kFiles, kFolders };

/// Returns the kind of an option's values, from the name of its type or, without one, the
/// argument's own name. "a|b" is a choice of words; FILE, RUN and TARGET are files, DIR a folder.
Takes takes(const CLI::Option& option);
bool takes_several(const CLI::Option& option);
/// Returns the words of "a|b", with spaces between.
std::string words_of(const CLI::Option& option);
/// Returns -h and --help.
std::vector<std::string> flags_of(const CLI::Option& option);
/// Returns `text` with a backslash before each of `characters`.
std::string escape(const std::string& text, std::string_view characters);

}  // namespace addnorm::cli
