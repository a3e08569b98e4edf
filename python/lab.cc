// The table of arrangements and the lab's measurements, as JSON.

#include <pybind11/stl.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/require.h"
#include "io/arrangement.h"
#include "io/json.h"
#include "lab/reproduce.h"
#include "lab/site_trace.h"
#include "lab/trace.h"
#include "module.h"
#include "report/lab_report.h"
#include "report/study_report.h"

namespace addnorm::python {
namespace {

using Numbers = std::vector<double>;

/// The arguments are those of lab::SiteArgs, with 0 or "" for absent ones.
std::string trace_json(const NormFields& norm, const std::vector<Numbers>& x, const Numbers& branch,
                       const Numbers& gamma, const Numbers& beta, const std::string& placement,
                       std::size_t layers, std::size_t layer, const std::string& sublayer,
                       std::size_t lanes) {
  lab::SiteArgs place{.placement = placement,
                      .layers = layers,
                      .layer = layer,
                      .lanes = lanes,
                      .given_lanes = x.size()};
  if (!sublayer.empty()) {
    constexpr auto names = names_of(SublayerKind{});
    place.sublayer =
        static_cast<SublayerKind>(find_name("sublayer", sublayer, std::span(names).first(2)));
  }
  const lab::TraceSite site = lab::find_site(place);
  const NormOptions options = norm_options(norm);
  if (const auto form = lab::short_form(site)) {
    return to_json(lab::trace({.x = x.front(),
                               .branch = branch,
                               .placement = *form,
                               .norm = options,
                               .gamma = gamma,
                               .beta = beta}))
        .dump();
  }
  return to_json(
             lab::trace_site(
                 site, {.x = x, .branch = branch, .norm = options, .gamma = gamma, .beta = beta}))
      .dump();
}

/// `options` is a JSON object for lab::read_options().
std::string figure_json(const std::string& name, const std::string& options,
                        const std::string& text) {
  const lab::Figure& figure = lab::find_figure(name);
  require(figure.trains || text.empty(), "text: {} trains nothing", name);
  require(!figure.trains || text.size() >= lab::kLeastText,
          "text: has {} bytes; expected at least {}", text.size(), lab::kLeastText);
  report::LabRun run{
      figure, lab::complete(figure, lab::read_options(io::parse_json(options, "options"))), {}};
  run.options.text = text;
  run.result = figure.run(run.options);
  return report::lab_json(run);
}

/// Trains without the GIL, except in `progress` and for signals; an exception in them stops the
/// training.
lab::Study run_study_for_python(const lab::StudyOptions& options, const train::ByteText& text,
                                const py::object& progress) {
  bool stopped = false;
  const py::gil_scoped_release release;
  return lab::run_study(options, text, [&](std::size_t done, std::size_t all) {
    if (stopped) fail("the study has been stopped");
    stopped = true;  // reset at the end of this function
    const py::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (!progress.is_none()) progress(done, all);
    stopped = false;
  });
}

/// `settings` is a JSON object of run::settings().
std::string study_json(const std::string& text, std::vector<std::string> placements,
                       std::size_t seeds, const std::string& settings, const py::object& progress) {
  lab::StudyOptions options{.placements = std::move(placements), .seeds = seeds};
  const io::Json given = io::parse_json(settings, "settings");
  std::vector<std::string_view> names;
  for (const run::Setting& setting : run::settings()) {
    if (setting.in_study) names.push_back(setting.name);
  }
  for (const auto& item : given.items()) find_name("setting", item.key(), names);
  run::update(options.config, given, "study");
  lab::check_study(options);
  const lab::Study study =
      run_study_for_python(options, train::ByteText(text, options.config.context), progress);
  return report::study_json(report::StudyReport(study));
}

}  // namespace

void add_lab(py::module_& m) {
  using Release = py::call_guard<py::gil_scoped_release>;
  m.def("arrangement", &io::arrangement_json);
  m.def("arrangement_names", &io::arrangement_names_json);
  m.def("trace", &trace_json);
  m.def(
      "reproduce", [](std::uint64_t seed) { return to_json(lab::reproduce(seed)).dump(); },
      Release());
  m.def("figures", [] { return report::lab_list_json(lab::figures()); });
  m.def("figure", &figure_json, Release());
  m.def("study", &study_json);
}

}  // namespace addnorm::python
