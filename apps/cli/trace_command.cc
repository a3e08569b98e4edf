#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/options.h"
#include "cli/trace_text.h"
#include "lab/trace.h"
#include "report/terminal.h"

namespace addnorm::cli {
namespace {

constexpr const char* kTraceMeaning =
    R"(What the placements mean:
  post  s = x + F(x), output = norm(s)
  pre   h = norm(x), output = s = x + F(h); the mean, the deviation and x̂ are those of x
  none  output = s = x + F(x); nothing is normalized, s only measured
Without --branch there is only the norm, of VALUES. VALUES come first: --branch, --gamma and --beta
take all numbers that follow them. Commas may separate numbers.

Examples:
  addnorm trace 1 2 3 4
  addnorm trace 0.2 -0.5 0.9 -0.1 0.4 --branch 3 -7 1 9 -2 --eps 1e-8
  addnorm trace 1 2 3 4 --norm rms --gamma 2 --json
  addnorm trace 1 2 3 4 --eps-at deviation --variance unbiased --eps 1e-6)";

struct TraceFlags {
  std::vector<double> values, branch, gamma, beta;
  lab::TracePlacement placement = lab::TracePlacement::kPost;
  NormOptions norm;
  bool json = false;
};

ExitStatus run(const TraceFlags& flags) {
  require(!flags.values.empty(),
          "VALUES: there are none; expected at least one number before the "
          "flags, as in 'addnorm trace 1 2 3 4 --gamma 2'");
  const lab::TraceArgs args{.x = flags.values,
                            .branch = flags.branch,
                            .placement = flags.placement,
                            .norm = flags.norm,
                            .gamma = flags.gamma,
                            .beta = flags.beta};
  const lab::Trace result = lab::trace(args);
  report::Terminal terminal(stdout);
  if (flags.json) {
    fmt::print("{}\n", to_json(result).dump());
  } else {
    const std::string text = trace_text(result, args, terminal.width());
    terminal.write(terminal.style().glyphs == report::Glyphs::kAscii ? spell_out(text) : text);
  }
  return kDone;
}

}  // namespace

Command trace_command(CLI::App& program) {
  const auto flags = std::make_shared<TraceFlags>();
  CLI::App* app = program.add_subcommand("trace", "Show Add & Norm of one token, step by step");
  add_numbers(*app, "VALUES", flags->values, "the token's features, x")->type_name("");
  add_numbers(*app, "--branch", flags->branch, "what the sublayer F gives back, as many as x")
      ->type_name("VALUES");
  add_choice(*app, "--placement", flags->placement, "position of the norm (default post)");
  add_choice(*app, "--norm", flags->norm.kind, "LayerNorm, the default, or RMSNorm", kRowNorms);
  add_numbers(*app, "--gamma", flags->gamma, "γ, one number or one for each of x (default 1)")
      ->type_name("G");
  add_numbers(*app, "--beta", flags->beta, "β, the same (default 0)")->type_name("B");
  add_norm_options(*app, flags->norm);
  add_switch(*app, "--json", flags->json, "print one JSON document");
  app->footer(kTraceMeaning);
  return {app, [flags] { return run(*flags); }};
}

}  // namespace addnorm::cli
