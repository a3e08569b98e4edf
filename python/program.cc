// The program `addnorm` as a function, for the command of the same name and `python -m addnorm`.

#include "cli/program.h"

#include <string>
#include <utility>
#include <vector>

#include "base/require.h"
#include "call.h"
#include "cli/called_program.h"
#include "cli/command.h"

namespace addnorm::cli {

Command serve_command(CLI::App& program) {
  CLI::App* app = program.add_subcommand(
      "serve", "Show the tutorial, or training runs: not in the Python package");
  app->footer(
      "Shows the interactive tutorial, or training runs, in the browser. The Python package has "
      "no\n"
      "pages; in the source of addnorm, `make serve` builds them and shows them.");
  app->prefix_command();  // other flags of the command are not errors here
  return {app, []() -> ExitStatus {
            fail(
                "the Python package has no pages to serve; in the source of addnorm, `make serve` "
                "builds them and shows them");
          }};
}

}  // namespace addnorm::cli

namespace addnorm::python {
namespace {

/// The arguments are the name by which the program was called, and its arguments. Returns its exit
/// status.
std::string call_run_program(const Json& arguments, Progress /*progress*/) {
  static std::string called;  // the program keeps a pointer to it
  called = bytes_of(arguments.at(0));
  cli::set_called_program(called.c_str());
  std::vector<std::string> words;
  for (const Json& word : arguments.at(1)) words.push_back(bytes_of(word));
  return std::to_string(cli::run_program(std::move(words)));
}

constexpr Function kProgramFunctions[] = {{"run_program", call_run_program}};

}  // namespace

std::span<const Function> program_functions() {
  return kProgramFunctions;
}

}  // namespace addnorm::python
