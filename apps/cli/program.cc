#include "cli/program.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/require.h"
#include "base/shorten.h"
#include "cli/called_program.h"
#include "cli/command.h"
#include "cli/manual.h"
#include "cli/options.h"
#include "cli/processes.h"
#include "io/file.h"
#include "report/terminal.h"

namespace addnorm::cli {
namespace {

constexpr const char* kDescription =
    "Add & Norm: residual connections and normalization for Transformers.";
constexpr const char* kExamples =
    R"(Examples:
  addnorm study                                 which stacks keep signal and gradient, and train
  addnorm train --text FILE --out out/run       train a language model over bytes
  addnorm generate out/run --prompt "The "      and generate text with it
  addnorm trace 1 2 3 4                         LayerNorm of four numbers, step by step
  addnorm trace 1 2 3 4 --branch 0.5 -1 2 0     add a branch's output, then normalize
  addnorm norm --input x.npy --output y.npy     the same for whole arrays
  addnorm reproduce                             the numbers of the tutorial, digit for digit
  addnorm lab gradient-flow                     a measurement, theory's prediction, a verdict
  addnorm doctor out/run                        find bugs in residual connections and norms
  addnorm check models:small                    and those of a PyTorch model, in the Python package
  addnorm bench                                 compare the kernels with oneDNN and PyTorch
  addnorm serve                                 the interactive tutorial, in the browser
  addnorm serve --runs out                      training runs, as they train, in the browser

'addnorm COMMAND --help' says more about a command.
ADDNORM_CPU=avx512|avx2|sse4|scalar forces an instruction set, NO_COLOR=1 forbids colour.
Exit status: 0 done, 1 a verdict failed, the doctor found something or a loss was not finite, 2 bad
usage or bad input.)";

/// Prints a line of at most 300 bytes on standard error, whatever a file name or an argument
/// contains.
ExitStatus report_error(const CLI::App& program, std::string message) {
  std::string command = program.get_name();
  for (const CLI::App* parsed : program.get_subcommands()) command += ' ' + parsed->get_name();
  std::ranges::replace(message, '\n', ' ');
  message = report::adapt(message, {});
  let_first_process_report();
  constexpr std::size_t kMostBytes = 300;
  std::fputs((shorten(command + ": " + message, kMostBytes) + '\n').c_str(), stderr);
  end_processes(kBadUsage);
  return kBadUsage;
}

std::string expected_commands(const CLI::App& program) {
  std::vector<std::string> names;
  for (const CLI::App* command : visible_commands(program)) names.push_back(command->get_name());
  return fmt::format("expected one of {}", fmt::join(names, ", "));
}

/// Refuses an empty value, which CLI11 reads as 0 and which paths take for the current folder. A
/// prompt may be empty.
void refuse_empty_values(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    const std::string type = option->get_type_name();
    require(option->get_name() == "--prompt" || !std::ranges::count(option->results(), ""),
            "{}: is empty{}", option->get_name(), type.empty() ? "" : "; expected " + type);
  }
}

ExitStatus execute(CLI::App& program, const std::vector<Command>& commands,
                   std::vector<std::string> arguments) {
  const std::string name = arguments.empty() ? "" : arguments[0];
  require(name != "check",
          "check: runs a PyTorch model and needs the Python package; use python -m addnorm check");
  require(name.empty() || name.starts_with('-') ||
              std::ranges::any_of(commands, [&](auto& c) { return c.app->check_name(name); }),
          "'{}' is not a command; {}", name, expected_commands(program));
  for (std::string& argument : arguments) argument = hide_sign(argument);
  std::ranges::reverse(arguments);  // the order that CLI11 expects
  try {
    program.parse(std::move(arguments));
  } catch (const CLI::Success& help_or_version) {
    program.exit(help_or_version);
    return kDone;
  }
  const auto chosen =
      std::ranges::find_if(commands, [](const Command& c) { return c.app->parsed(); });
  require(chosen != commands.end(), "no command; {}", expected_commands(program));
  refuse_empty_values(*chosen->app);
  return chosen->run();
}

/// Returns CLI11's message, or our own for a flag that is repeated too often.
std::string message_of(const CLI::ParseError& error, const CLI::App& program) {
  for (const CLI::App* command : program.get_subcommands()) {
    for (const CLI::Option* option : command->get_options()) {
      const bool once = option->get_multi_option_policy() == CLI::MultiOptionPolicy::Throw &&
                        option->get_items_expected_max() == 1;
      if (!once || option->count() <= 1) continue;
      return fmt::format("{}: is given {} times; expected once", option->get_name(),
                         option->count());
    }
  }
  return error.what();
}

/// A help text whose examples can be typed in the folder of the call.
class Formatter : public CLI::Formatter {
 public:
  std::string make_footer(const CLI::App* app) const override {
    return as_called(CLI::Formatter::make_footer(app));
  }
};

ExitStatus run(std::vector<std::string> arguments) {
  CLI::App program(kDescription, "addnorm");
  program.formatter(std::make_shared<Formatter>());
  program.set_version_flag("--version", "addnorm " ADDNORM_VERSION);
  program
      .add_option_function<std::uint64_t>("--pipe-limit", io::limit_pipes,
                                          "most bytes to read from a pipe or device (default 1GiB)")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(false))
      ->transform([](const std::string& size) {  // CLI11 runs the last transformation first
        require(!size.starts_with('-'), "--pipe-limit: is {}; expected 0 or more", size);
        return size;
      });
  program.require_subcommand(0, 1);
  program.get_formatter()->column_width(32);
  const std::vector<Command> commands{
      study_command(program),      train_command(program), generate_command(program),
      trace_command(program),      norm_command(program),  reproduce_command(program),
      placements_command(program), lab_command(program),   doctor_command(program),
      bench_command(program),      serve_command(program), manual_command(program),
  };
  program.footer(kExamples);  // set last: commands would inherit it
  try {
    const ExitStatus status = execute(program, commands, std::move(arguments));
    const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
    require(written, "standard output: cannot be written");
    return status;
  } catch (const CLI::ParseError& error) {
    return report_error(program, fmt::format("{}; see --help", message_of(error, program)));
  } catch (const std::bad_alloc&) {
    return report_error(program, "there is not enough memory for what the flags ask for");
  } catch (const std::exception& error) {
    return report_error(program, error.what());
  }
}

/// Opens those of the three standard streams that are closed, so that no later file gets their
/// numbers. Reading and writing still fail.
void occupy_closed_streams() {
  for (const int stream : {0, 1, 2}) {
    if (::fcntl(stream, F_GETFD) == -1) ::open("/dev/null", stream == 0 ? O_WRONLY : O_RDONLY);
  }
}

/// Reports a mapped file that has become shorter; other bus errors end the program as usual.
void on_bus_error(int signal, siginfo_t* info, void*) {
  const char* const file = io::mapped_file_at(info->si_addr);
  if (file == nullptr) {
    std::signal(signal, SIG_DFL);
    return;  // to the instruction that raised the signal, which raises it again
  }
  for (const char* part : {"addnorm: ", file, ": has become shorter while it was read\n"}) {
    [[maybe_unused]] const ssize_t written = ::write(2, part, std::strlen(part));
  }
  std::_Exit(kBadUsage);
}

/// Handles signals that would end the program without an error message.
void catch_signals() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the size limit fails, as on a full disk
}

}  // namespace

int run_program(std::vector<std::string> arguments) {
  occupy_closed_streams();
  catch_signals();
  return run(std::move(arguments));
}

}  // namespace addnorm::cli
