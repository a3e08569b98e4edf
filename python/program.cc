// The program `addnorm` as a function, for the command of the same name and `python -m addnorm`.

#include "cli/program.h"

#include <pybind11/stl.h>

#include <string>
#include <utility>
#include <vector>

#include "base/require.h"
#include "cli/called_program.h"
#include "cli/command.h"
#include "module.h"

namespace addnorm::cli {

Command serve_command(CLI::App& program) {
  CLI::App* app = program.add_subcommand("serve", "Show the tutorial, or training runs: not in the Python package");
  app->footer(
      "Shows the interactive tutorial, or training runs, in the browser. The Python package has no\n"
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

int run_program(const std::string& called, std::vector<std::string> arguments) {
  cli::set_called_program(called.c_str());
  return cli::run_program(std::move(arguments));
}

}  // namespace

void add_program(py::module_& m) {
  m.def("run_program", &run_program, py::call_guard<py::gil_scoped_release>());
}

}  // namespace addnorm::python
