// The table of arrangements and the lab's measurements, as JSON.

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/require.h"
#include "call.h"
#include "io/arrangement.h"
#include "io/json.h"
#include "lab/reproduce.h"
#include "lab/site_trace.h"
#include "lab/trace.h"
#include "report/lab_report.h"
#include "report/study_report.h"

namespace addnorm::python {
namespace {

using Numbers = std::vector<double>;

/// The arguments are a placement, the number of layers, of lanes (0: the placement's own), and the
/// width.
std::string call_arrangement(const Json& arguments, Progress /*progress*/) {
  return io::arrangement_json(
      arguments.at(0).get<std::string>(), arguments.at(1).get<std::size_t>(),
      arguments.at(2).get<std::size_t>(), arguments.at(3).get<std::size_t>());
}

std::string call_arrangement_names(const Json& /*arguments*/, Progress /*progress*/) {
  return io::arrangement_names_json();
}

/// The arguments are a norm, the rows of x, branch, γ, β, and the fields of lab::SiteArgs:
/// placement, layers, layer, sublayer and lanes, with 0 or "" for absent ones.
std::string call_trace(const Json& arguments, Progress /*progress*/) {
  const NormOptions norm = norm_options(arguments.at(0));
  const auto x = arguments.at(1).get<std::vector<Numbers>>();
  const auto branch = arguments.at(2).get<Numbers>();
  const auto gamma = arguments.at(3).get<Numbers>(), beta = arguments.at(4).get<Numbers>();
  const auto placement = arguments.at(5).get<std::string>();
  lab::SiteArgs place{.placement = placement,
                      .layers = arguments.at(6).get<std::size_t>(),
                      .layer = arguments.at(7).get<std::size_t>(),
                      .lanes = arguments.at(9).get<std::size_t>(),
                      .given_lanes = x.size()};
  if (const auto sublayer = arguments.at(8).get<std::string>(); !sublayer.empty()) {
    constexpr auto names = names_of(SublayerKind{});
    place.sublayer =
        static_cast<SublayerKind>(find_name("sublayer", sublayer, std::span(names).first(2)));
  }
  const lab::TraceSite site = lab::find_site(place);
  if (const auto form = lab::short_form(site)) {
    return to_json(lab::trace({.x = x.front(),
                               .branch = branch,
                               .placement = *form,
                               .norm = norm,
                               .gamma = gamma,
                               .beta = beta}))
        .dump();
  }
  return to_json(lab::trace_site(
                     site, {.x = x, .branch = branch, .norm = norm, .gamma = gamma, .beta = beta}))
      .dump();
}

std::string call_reproduce(const Json& arguments, Progress /*progress*/) {
  return to_json(lab::reproduce(arguments.at(0).get<std::uint64_t>())).dump();
}

std::string call_figures(const Json& /*arguments*/, Progress /*progress*/) {
  return report::lab_list_json(lab::figures());
}

/// The arguments are a figure's name, the JSON text of an object for lab::read_options(), and the
/// text that it trains on.
std::string call_figure(const Json& arguments, Progress /*progress*/) {
  const auto name = arguments.at(0).get<std::string>(), text = arguments.at(2).get<std::string>();
  const lab::Figure& figure = lab::find_figure(name);
  require(figure.trains || text.empty(), "text: {} trains nothing", name);
  require(!figure.trains || text.size() >= lab::kLeastText,
          "text: has {} bytes; expected at least {}", text.size(), lab::kLeastText);
  const io::Json options = io::parse_json(arguments.at(1).get<std::string>(), "options");
  report::LabRun run{figure, lab::complete(figure, lab::read_options(options)), {}};
  run.options.text = text;
  run.result = figure.run(run.options);
  return report::lab_json(run);
}

/// The arguments are the text, the placements, the number of seeds, and the JSON text of an object
/// of run::settings().
std::string call_study(const Json& arguments, Progress progress) {
  const auto text = arguments.at(0).get<std::string>();
  lab::StudyOptions options{.placements = arguments.at(1).get<std::vector<std::string>>(),
                            .seeds = arguments.at(2).get<std::size_t>()};
  const io::Json given = io::parse_json(arguments.at(3).get<std::string>(), "settings");
  std::vector<std::string_view> names;
  for (const run::Setting& setting : run::settings()) {
    if (setting.in_study) names.push_back(setting.name);
  }
  for (const auto& item : given.items()) find_name("setting", item.key(), names);
  run::update(options.config, given, "study");
  lab::check_study(options);
  const auto report_progress = [&](std::size_t done, std::size_t all) {
    if (progress(done, all) != 0) fail("the study has been stopped");
  };
  const lab::Study study =
      lab::run_study(options, train::ByteText(text, options.config.context), report_progress);
  return report::study_json(report::StudyReport(study));
}

constexpr Function kLabFunctions[] = {{"arrangement", call_arrangement},
                                      {"arrangement_names", call_arrangement_names},
                                      {"trace", call_trace},
                                      {"reproduce", call_reproduce},
                                      {"figures", call_figures},
                                      {"figure", call_figure},
                                      {"study", call_study}};

}  // namespace

std::span<const Function> lab_functions() {
  return kLabFunctions;
}

}  // namespace addnorm::python
