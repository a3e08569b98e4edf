#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace addnorm {

/// --text FILE..., for commands that train.
CLI::Option* add_text(CLI::App& app, std::vector<std::string>& files);

/// The bytes of the files; without files, of the project's own documents and sources, in the order
/// of their names.
std::string read_text_or_own(const std::vector<std::string>& files);

}  // namespace addnorm
