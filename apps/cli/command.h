#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace addnorm::cli {

/// The exit status of the program.
enum ExitStatus {
  kDone = 0,
  kBadOutcome = 1,  ///< a verdict failed, or training met a number that is not finite
  kBadUsage = 2,    ///< wrong usage or bad input
};

/// A subcommand of the program, and the function that runs it after its flags are parsed.
struct Command {
  CLI::App* app = nullptr;
  std::function<ExitStatus()> run;
};

Command trace_command(CLI::App& program);
Command norm_command(CLI::App& program);
Command reproduce_command(CLI::App& program);
Command study_command(CLI::App& program);
Command train_command(CLI::App& program);
Command generate_command(CLI::App& program);
Command placements_command(CLI::App& program);
Command lab_command(CLI::App& program);
Command doctor_command(CLI::App& program);
Command bench_command(CLI::App& program);
Command serve_command(CLI::App& program);
Command manual_command(CLI::App& program);

}  // namespace addnorm::cli
