#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/called_program.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/site_trace_text.h"
#include "cli/trace_text.h"
#include "lab/site_trace.h"
#include "report/terminal.h"

namespace addnorm::cli {
namespace {

constexpr const char* kTraceMeaning =
    R"(What the placements mean:
  post  s = x + F(x), output = norm(s)
  pre   h = norm(x), output = s = x + F(h); the mean, the deviation and x̂ are those of x
  none  output = s = x + F(x); nothing is normalized, s only measured
  any other that 'addnorm placements' lists, or parts of them such as post:3+pre: every step of
        one sublayer, with the numbers that training starts with
Where a stream has several lanes, VALUES are the embedding, with which all lanes begin; or the lanes
themselves, with / between them. A stream of one lane is VALUES, and begins with them: some
placements normalize them before the first sublayer. --branch is what the sublayer makes of what it
has read.

Without --branch there is only the norm, of VALUES, or what is read. VALUES come first: --branch,
--gamma and --beta take all numbers that follow them. Commas may separate numbers.

Examples:
  addnorm trace 1 2 3 4
  addnorm trace 0.2 -0.5 0.9 -0.1 0.4 --branch 3 -7 1 9 -2 --eps 1e-8
  addnorm trace 1 2 3 4 --norm rms --gamma 2 --json
  addnorm trace 1 2 3 4 --eps-at deviation --variance unbiased --eps 1e-6
  addnorm trace 1 2 3 4 --placement mhc --branch 1 -2 0 3
  addnorm trace 1 2 / 3 -1 --placement hyper --layer 2 --branch 0.5 -1)";

struct TraceFlags {
  lab::Rows lanes;
  std::vector<double> branch, gamma, beta;
  std::string placement = "post";
  std::uint64_t layers = lab::SiteArgs{}.layers;
  std::uint64_t layer = 0, start_lanes = 0;  // 0: not given
  std::optional<SublayerKind> sublayer;
  NormOptions norm;
  bool json = false;
};

void print(const nlohmann::ordered_json& json) {
  fmt::print("{}\n", json.dump());
}

void print(const auto& make_text) {
  report::Terminal terminal(stdout);
  const std::string text = make_text(terminal.width());
  terminal.write(terminal.style().glyphs == report::Glyphs::kAscii ? spell_out(text) : text);
}

ExitStatus run_short_form(const TraceFlags& flags, lab::TracePlacement placement) {
  const lab::TraceArgs args{.x = flags.lanes.front(),
                            .branch = flags.branch,
                            .placement = placement,
                            .norm = flags.norm,
                            .gamma = flags.gamma,
                            .beta = flags.beta};
  const lab::Trace result = lab::trace(args);
  if (flags.json) {
    print(to_json(result));
  } else {
    print([&](int width) { return trace_text(result, args, width); });
  }
  return kDone;
}

ExitStatus run(const TraceFlags& flags) {
  require(!flags.lanes.empty(),
          "VALUES: is missing; expected at least one number before the flags, as in '{} trace 1 2 "
          "3 4 --gamma 2'",
          called_program());
  const lab::TraceSite site = lab::find_site({.placement = flags.placement,
                                              .layers = flags.layers,
                                              .layer = flags.layer,
                                              .sublayer = flags.sublayer,
                                              .lanes = flags.start_lanes,
                                              .given_lanes = flags.lanes.size()});
  if (const auto placement = lab::short_form(site)) {
    return run_short_form(flags, *placement);
  }
  const lab::SiteTrace result = lab::trace_site(site, {.x = flags.lanes,
                                                       .branch = flags.branch,
                                                       .norm = flags.norm,
                                                       .gamma = flags.gamma,
                                                       .beta = flags.beta});
  if (flags.json) {
    print(to_json(result));
  } else {
    print([&](int width) { return site_trace_text(result, width); });
  }
  return kDone;
}

}  // namespace

Command trace_command(CLI::App& program) {
  const auto flags = std::make_shared<TraceFlags>();
  CLI::App* app = program.add_subcommand("trace", "Show Add & Norm of one token, step by step");
  add_rows(*app, "VALUES", flags->lanes, "the token's features, x; or its lanes, as 1 2 / 3 4")
      ->type_name("");
  add_numbers(*app, "--branch", flags->branch, "output of the sublayer F, as many numbers as x")
      ->type_name("VALUES");
  app->add_option("--placement", flags->placement, "where residual and norms stand (default post)")
      ->type_name(placement_names())
      ->option_text("NAME[/NAME][:N+...]");
  add_count(*app, "--lanes", flags->start_lanes,
            "number of lanes of the stream, where the placement allows a choice");
  add_count(*app, "--layers", flags->layers,
            fmt::format("number of layers of the stack (default {})", flags->layers));
  add_count(*app, "--layer", flags->layer, "layer, counted from 1 (default the first)");
  add_choice(
      *app, "--sublayer", {"attention", "feed_forward"},
      [flags](std::size_t place) { flags->sublayer = static_cast<SublayerKind>(place); },
      "sublayer of the layer (default the first)");
  add_choice(*app, "--norm", flags->norm.kind, "LayerNorm, the default, or RMSNorm", kRowNorms);
  add_numbers(*app, "--gamma", flags->gamma, "γ, one number or one for each feature (default 1)")
      ->type_name("G");
  add_numbers(*app, "--beta", flags->beta, "β, the same (default 0)")->type_name("B");
  add_norm_options(*app, flags->norm);
  add_switch(*app, "--json", flags->json, "print one JSON document");
  app->footer(kTraceMeaning);
  return {app, [flags] { return run(*flags); }};
}

}  // namespace addnorm::cli
