#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace addnorm::cli {

/// --text FILE..., for commands that train.
CLI::Option* add_text(CLI::App& app, std::vector<std::string>& files);

/// " --text FILE..." for a printed command, or nothing where there are no files.
std::string text_flag(const std::vector<std::string>& files);

/// The bytes of the files; without files, of the King James Bible as Debian's package bible-kjv
/// prints it: 4.4 MB of English that do not change.
std::string read_text_or_default(const std::vector<std::string>& files);

}  // namespace addnorm::cli
