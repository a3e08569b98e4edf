#pragma once

#include <string>
#include <vector>

namespace addnorm::cli {

/// Runs the program with these arguments, its own name not among them, and returns its exit status.
/// Errors become a line on standard error, except an exception for want of memory. Handlers of
/// signals stay behind.
int run_program(std::vector<std::string> arguments);

}  // namespace addnorm::cli
