// The doctor for a profile, a run or a model: the rules, and the program's reports.

#include <pybind11/stl.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/diagnose.h"
#include "doctor/open_model.h"
#include "doctor/rule_names.h"
#include "io/profile.h"
#include "model/family_facts.h"
#include "module.h"
#include "report/doctor_report.h"
#include "report/doctor_words.h"
#include "report/terminal.h"

namespace addnorm::python {
namespace {

/// Diagnoses a subject again and omits the findings that these names accept.
report::Diagnosis accepting(const report::Diagnosis& all,
                            const std::vector<std::string>& accepted) {
  return report::diagnose(all.subject, accepted);
}

report::Diagnosis diagnose_text(const std::string& profile, const std::string& name) {
  return {.subject = doctor::read_profile_text(profile, name)};
}

std::string profile_of(const report::Diagnosis& diagnosis) {
  const io::Profile& profile = diagnosis.subject.profile;
  return io::profile_json_lines(profile.model, profile.entries) + io::check_lines(profile.checks);
}

std::string text_of(const report::Diagnosis& diagnosis, int width, bool in_color,
                    const report::Diagnosis* other) {
  std::string text = report::doctor_text(diagnosis, width);
  if (other != nullptr) text += "\n" + report::comparison_text(diagnosis, *other, width);
  const report::Color color = in_color ? report::Color::kOn : report::Color::kOff;
  return report::adapt(text, {.color = color, .width = width});
}

/// Returns the index of the worst finding and all places, for each group of findings in the text.
std::vector<std::pair<std::size_t, std::string>> groups_of(const report::Diagnosis& diagnosis) {
  std::vector<std::pair<std::size_t, std::string>> groups;
  for (const report::Group& group : report::grouped(diagnosis.findings)) {
    const auto worst = static_cast<std::size_t>(&group.worst() - diagnosis.findings.data());
    groups.emplace_back(worst, places(group));
  }
  return groups;
}

/// Returns the known facts of a family of models; numbers and kinds that are unknown have no key.
py::dict facts_of(const std::string& model_type) {
  const model::FamilyFacts facts = model::family_facts(model_type);
  py::dict dict;
  if (facts.norm) dict["norm"] = std::string(to_string(*facts.norm));
  if (facts.gamma_form) dict["gamma_form"] = std::string(to_string(*facts.gamma_form));
  if (facts.epsilons[0] > 0) dict["epsilons"] = facts.epsilons;
  dict["has_scaled_scores"] = facts.has_scaled_scores;
  dict["has_scaled_projections"] = facts.has_scaled_projections;
  dict["has_normalized_stream"] = facts.has_normalized_stream;
  dict["has_router_gradient"] = facts.has_router_gradient;
  return dict;
}

}  // namespace

void add_doctor(py::module_& m) {
  using Release = py::call_guard<py::gil_scoped_release>;
  py::class_<report::Diagnosis>(m, "Diagnosis")
      .def(py::init(&diagnose_text), Release())
      .def("accepting", &accepting, Release())
      .def("profile", &profile_of, Release())
      .def_property_readonly("sound", &report::Diagnosis::sound)
      .def_property_readonly(
          "verdict", [](const report::Diagnosis& diagnosis) { return verdict(diagnosis).text; })
      .def("groups", &groups_of)
      .def("text", &text_of, Release())
      .def("json", &report::doctor_json, Release())
      .def("html", &report::doctor_html, Release());
  m.def("diagnose", &cli::diagnose, Release());
  m.def("is_profile", &doctor::is_profile);
  m.def("family_facts", &facts_of);
  m.def("check_accepted",
        [](const std::vector<std::string>& names) { doctor::check_accepted(names); });
  m.def("rule_names", [] {
    const std::span<const std::string_view> names = doctor::rule_names();
    return std::vector<std::string>(names.begin(), names.end());
  });
}

}  // namespace addnorm::python
