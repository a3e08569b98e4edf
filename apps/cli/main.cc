#include "cli/called_program.h"
#include "cli/command.h"
#include "cli/program.h"

int main(int argc, char** argv) {
  addnorm::cli::set_called_program(argv[0]);
  try {
    return addnorm::cli::run_program({argv + 1, argv + argc});
  } catch (...) {  // There is too little memory even for a message.
    return addnorm::cli::kBadUsage;
  }
}
