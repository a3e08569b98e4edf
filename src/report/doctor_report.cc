#include "report/doctor_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

#include "doctor/accepted.h"
#include "doctor/consequences.h"
#include "io/json.h"
#include "report/doctor_bands.h"
#include "report/doctor_comparison.h"
#include "report/doctor_words.h"
#include "report/table.h"
#include "report/text.h"

namespace addnorm::report {
namespace {

std::string indented(std::string_view label, std::string_view text, int width) {
  constexpr int kIndent = 12;
  std::string lines;
  std::istringstream wrapped(wrap(text, std::max(20, width - kIndent)));
  for (std::string line; std::getline(wrapped, line);) {
    const std::string head = lines.empty() ? fmt::format("  {}", label) : "";
    lines += pad(head, kIndent, Align::kLeft) + line + "\n";
  }
  return lines;
}

std::string block_text(const Diagnosis& diagnosis, const Group& group, int width) {
  const doctor::Finding& worst = group.worst();
  const SeverityLook& severity = look(worst.severity);
  std::string text =
      fmt::format("{} {}\n", paint(severity.ink, severity.mark), paint(Ink::kStrong, worst.rule));
  text += indented("where", places(group), width);
  text += indented("seen", worst.what, width);
  text += indented(worst.severity == doctor::Severity::kNote ? "because" : "expected",
                   worst.because, width);
  text += indented("fix", worst.fix, width);
  const std::string effects = effects_text(group);
  if (!effects.empty()) text += indented("leads to", effects, width);
  for (const std::string& proof : proof_texts(diagnosis, group)) {
    text += indented("proof", proof, width);
  }
  return text;
}

}  // namespace

bool Diagnosis::has_defects() const {
  return std::ranges::any_of(
      findings, [](const doctor::Finding& f) { return f.severity != doctor::Severity::kNote; });
}

bool Diagnosis::sound() const {
  return !has_defects() && !is_blind(subject.profile.coverage) && subject.was_run_whole();
}

Diagnosis diagnose(doctor::Subject subject, std::span<const std::string> accepted) {
  Diagnosis diagnosis{.subject = std::move(subject)};
  diagnosis.findings = doctor::find_all(diagnosis.subject);
  diagnosis.accepted = std::erase_if(diagnosis.findings, [&](const doctor::Finding& finding) {
    return doctor::is_accepted(finding, accepted);
  });
  doctor::fold_consequences(diagnosis.findings, diagnosis.subject.profile.model.layer_modules);
  return diagnosis;
}

std::string doctor_text(const Diagnosis& diagnosis, int width) {
  const std::vector<Group> groups = grouped(diagnosis.findings);
  const io::Coverage& coverage = diagnosis.subject.profile.coverage;
  std::string text =
      wrap(fmt::format("{}: {}", diagnosis.subject.name, model_text(diagnosis.subject)), width);
  text += "\n";
  if (!diagnosis.subject.measured_on.empty()) {
    text += paint(Ink::kFaint, input_text(diagnosis.subject)) + "\n";
  }
  for (const std::string& line : {coverage_text(coverage), left_out_text(coverage)}) {
    if (!line.empty()) text += paint(Ink::kFaint, wrap(line, width)) + "\n";
  }
  const Cell outcome = verdict(diagnosis);
  text += paint(outcome.ink, outcome.text) + "\n";
  for (const Group& group : groups) {
    text += "\n" + block_text(diagnosis, group, width);
  }
  const std::vector<doctor::LayerNumbers> rows =
      doctor::layer_numbers(diagnosis.subject, doctor::last_step(diagnosis.subject.profile));
  if (!rows.empty() && !is_blind(coverage)) {
    text += fmt::format("\n{}\n", paint(Ink::kStrong, "By layer"));
    text += to_text(layer_table(rows, 16), width);
    text += paint(Ink::kFaint, wrap(kLayerCaption, width)) + "\n";
    const std::string stacks = stacks_text(diagnosis.subject.profile.model);
    if (!stacks.empty()) text += "\n" + wrap(stacks, width) + "\n";
    const std::string depth = depth_text(rows);
    if (!depth.empty()) text += "\n" + wrap(depth, width) + "\n";
  }
  return text;
}

std::string comparison_text(const Diagnosis& one, const Diagnosis& other, int width) {
  const Comparison comparison = compare(one, other);
  std::string text =
      wrap(fmt::format("{} against {}", other.subject.name, one.subject.name), width) + "\n";
  const auto add = [&](const char* label, const std::vector<const doctor::Finding*>& findings) {
    for (const Group& group : grouped(findings)) {
      const char* mark = look(group.worst().severity).mark;
      text += wrap(fmt::format("{} {}: {}", mark, label, group_text(group)), width) + "\n";
    }
  };
  add("gone", comparison.gone);
  add("new", comparison.added);
  text += parting_text(comparison) + "\n";
  if (comparison.multiples.empty()) return text;
  text += fmt::format("\n{}\n", paint(Ink::kStrong, "By layer, as multiples"));
  return text + to_text(layer_table(comparison.multiples, 16), width);
}

namespace {

io::Json number(double value) {
  return std::isfinite(value) ? io::Json(value) : io::Json();
}

io::Json to_json(const doctor::Finding& f) {
  const bool in_layer = f.site && f.site->in_layer();
  return {{"rule", f.rule},
          {"severity", look(f.severity).name},
          {"where", f.where},
          {"layer", in_layer ? io::Json(f.site->layer) : io::Json()},
          {"sublayer", f.site ? io::Json(to_string(f.site->sublayer)) : io::Json()},
          {"module", f.module.empty() ? io::Json() : io::Json(f.module)},
          {"what", f.what},
          {"because", f.because},
          {"fix", f.fix},
          {"leads_to", f.leads_to},
          {"measured", number(f.measured)},
          {"expected", number(f.expected)}};
}

io::Json to_json(const doctor::Proof& proof) {
  return {{"rule", proof.rule},
          {"change", proof.change},
          {"steps", proof.steps},
          {"number", proof.number},
          {"before", number(proof.before)},
          {"after", number(proof.after)},
          {"mended", proof.was_found && proof.is_mended}};
}

io::Json to_json(const doctor::LayerNumbers& row) {
  io::Json layer{{"layer", row.layer}};
  for (const LayerColumn& column : kLayerColumns) {
    if (std::isfinite(row.*column.member)) layer[column.key] = row.*column.member;
  }
  return layer;
}

io::Json to_json(const io::Coverage& coverage) {
  io::Json document = io::Json::object();
  for (const auto& [what, measured, found] : coverage.counts) document[what] = {measured, found};
  if (document.empty() && coverage.left_out.empty()) return nullptr;
  document["left_out"] = io::Json::array();
  for (const auto& [where, why] : coverage.left_out) {
    document["left_out"].push_back({{"where", where}, {"why", why}});
  }
  return document;
}

io::Json to_json(const doctor::Finding* finding) {
  return to_json(*finding);
}

template <typename T>
io::Json array_of(const std::vector<T>& values) {
  io::Json array = io::Json::array();
  for (const T& value : values) array.push_back(to_json(value));
  return array;
}

const char* status(const Diagnosis& diagnosis) {
  if (diagnosis.sound()) return "sound";
  return diagnosis.has_defects() ? "findings" : "incomplete";
}

io::Json to_json(const Diagnosis& diagnosis) {
  const io::ProfileModel& model = diagnosis.subject.profile.model;
  const std::vector<doctor::LayerNumbers> rows =
      doctor::layer_numbers(diagnosis.subject, doctor::last_step(diagnosis.subject.profile));
  return {{"target", diagnosis.subject.name},
          {"status", status(diagnosis)},
          {"model",
           {{"type", model.model_type},
            {"placement", model.placement},
            {"norm", model.norm ? to_string(*model.norm) : ""},
            {"eps", model.eps},
            {"d_model", model.d_model},
            {"n_layers", model.n_layers},
            {"parameters", model.parameters}}},
          {"loss", number(diagnosis.subject.loss)},
          {"findings", array_of(diagnosis.findings)},
          {"accepted", diagnosis.accepted},
          {"coverage", to_json(diagnosis.subject.profile.coverage)},
          {"proofs", array_of(diagnosis.proofs)},
          {"effective_depth", number(effective_depth(rows))},
          {"layers", array_of(rows)}};
}

io::Json comparison_json(const Diagnosis& one, const Diagnosis& other) {
  const Comparison comparison = compare(one, other);
  io::Json parting;
  if (const auto& p = comparison.parting) {
    parting = {
        {"layer", p->layer}, {"number", p->number->key}, {"one", p->one}, {"other", p->other}};
  }
  return {{"other", to_json(other)},
          {"gone", array_of(comparison.gone)},
          {"new", array_of(comparison.added)},
          {"parting", std::move(parting)},
          {"multiples", array_of(comparison.multiples)}};
}

}  // namespace

std::string doctor_json(const Diagnosis& diagnosis, const Diagnosis* other) {
  io::Json document = to_json(diagnosis);
  if (other != nullptr) document["comparison"] = comparison_json(diagnosis, *other);
  return document.dump(2, ' ', false, io::Json::error_handler_t::replace) + "\n";
}

}  // namespace addnorm::report
