#pragma once

#include <string>
#include <string_view>

/// Commands in the program's output, in a form that can be typed where it was called.

namespace addnorm::cli {

/// Records the program's name: argv[0], or null.
void set_called_program(const char* name);

/// Returns the program's name as called, such as "build/release/bin/addnorm", quoted for the shell.
std::string called_program();

/// Replaces the program's name in each line that is a command: "  addnorm study --layers 8".
std::string as_called(std::string_view text);

/// Returns the word in shell syntax, with quotes if needed.
std::string shell_word(const std::string& word);

}  // namespace addnorm::cli
