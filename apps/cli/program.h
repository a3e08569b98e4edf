#pragma once

#include <string>
#include <vector>

namespace addnorm::cli {

/// Runs the program with these arguments, without its own name, and returns its exit status. Errors
/// become a line on standard error, except std::bad_alloc. Signal handlers stay installed.
int run_program(std::vector<std::string> arguments);

}  // namespace addnorm::cli
