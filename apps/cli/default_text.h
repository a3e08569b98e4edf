#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace addnorm::cli {

/// Adds --text FILE... to a command that trains.
CLI::Option* add_text(CLI::App& app, std::vector<std::string>& files);

/// Returns " --text FILE..." for a printed command, or "" without files.
std::string text_flag(const std::vector<std::string>& files);

/// Returns the bytes of the files. Without files it is the King James Bible in the form of Debian's
/// package bible-kjv: 4.4 MB of English that do not change.
std::string read_text_or_default(const std::vector<std::string>& files);

}  // namespace addnorm::cli
