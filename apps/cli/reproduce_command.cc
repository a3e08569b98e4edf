#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/options.h"
#include "lab/reproduce.h"
#include "report/numbers.h"
#include "report/table.h"
#include "report/terminal.h"

namespace addnorm::cli {
namespace {

constexpr const char* kReproduceMeaning =
    R"(The tutorial "Normalization & Residuals" prints numbers for torch.manual_seed(0): the first token
of a random tensor before and after its LayerNorm, and one pre-norm Transformer block. Here the same
numbers come from this library, with PyTorch's random generator built in. With seed 0 the exit
status is 1 if a number is not the tutorial's.)";

struct ReproduceFlags {
  std::uint64_t seed = 0;
  bool json = false;
};

/// A number of the tutorial, and the same number from this program.
struct Line {
  std::string name;
  std::string tutorial;
  std::string ours;
};

std::vector<Line> lines_of(const lab::Reproduction& r) {
  return {
      {"mean before LayerNorm", "0.184", fmt::format("{:.3f}", r.before.mean)},
      {"std before LayerNorm", "9.830", fmt::format("{:.3f}", r.before.std)},
      {"mean after LayerNorm", "-0.000", fmt::format("{:.3f}", r.after.mean)},
      {"std after LayerNorm", "1.000", fmt::format("{:.3f}", r.after.std)},
      {"block's output shape", "[2, 10, 512]", fmt::format("{}", r.shape)},
      {"mean |output − input|", "0.2057", fmt::format("{:.4f}", r.mean_abs_difference)},
      {"block's parameters", "3,152,384", report::format_count(r.parameters)},
  };
}

void print_table(const std::vector<Line>& lines, std::uint64_t seed) {
  const std::string ours = fmt::format("addnorm, seed {}", seed);
  report::Table table(
      seed == 0 ? std::vector<report::Column>{{"", report::Align::kLeft}, {"tutorial"}, {ours}}
                : std::vector<report::Column>{{"", report::Align::kLeft}, {ours}});
  for (const auto& [name, tutorial, value] : lines) {
    if (seed == 0) {
      table.add_row(
          {name, tutorial, {value, value == tutorial ? report::Ink::kGood : report::Ink::kBad}});
    } else {
      table.add_row({name, value});
    }
  }
  report::Terminal terminal(stdout);
  terminal.write(to_text(table, terminal.width()));
}

ExitStatus run(const ReproduceFlags& flags) {
  const lab::Reproduction result = lab::reproduce(flags.seed);
  const std::vector<Line> lines = lines_of(result);
  if (flags.json) {
    fmt::print("{}\n", to_json(result).dump());
  } else {
    print_table(lines, flags.seed);
  }
  const bool same = std::ranges::all_of(lines, [](const Line& l) { return l.ours == l.tutorial; });
  return flags.seed != 0 || same ? kDone : kBadOutcome;
}

}  // namespace

Command reproduce_command(CLI::App& program) {
  const auto flags = std::make_shared<ReproduceFlags>();
  CLI::App* app =
      program.add_subcommand("reproduce", "Compute the numbers that the tutorial prints");
  add_count(*app, "--seed", flags->seed, "torch.manual_seed of both parts (default 0)");
  add_switch(*app, "--json", flags->json, "print one JSON document");
  app->footer(kReproduceMeaning);
  return {app, [flags] { return run(*flags); }};
}

}  // namespace addnorm::cli
