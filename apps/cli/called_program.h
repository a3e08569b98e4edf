#pragma once

#include <string>
#include <string_view>

/// Commands in what the program prints, so that they can be typed where it was called.

namespace addnorm::cli {

/// Notes how the program was called: argv[0], or null.
void set_called_program(const char* name);

/// The program as it was called, such as "build/release/bin/addnorm", quoted for the shell.
std::string called_program();

/// The text with called_program() in each line that is a command: "  addnorm study --layers 8".
std::string as_called(std::string_view text);

/// The word as a shell reads it: in quotes where it needs them.
std::string shell_word(const std::string& word);

}  // namespace addnorm::cli
