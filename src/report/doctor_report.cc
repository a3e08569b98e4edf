#include "report/doctor_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/require.h"
#include "report/doctor_words.h"
#include "report/table.h"
#include "report/text.h"

namespace addnorm {
namespace {

using Json = nlohmann::ordered_json;

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

std::string group_text(const Diagnosis& diagnosis, const Group& group, int width) {
  const Finding& worst = group.worst();
  const SeverityLook& severity = look(worst.severity);
  std::string text =
      fmt::format("{} {}\n", paint(severity.ink, severity.mark), paint(Ink::kStrong, worst.rule));
  text += indented("where", places(group), width);
  text += indented("seen", worst.what, width);
  text +=
      indented(worst.severity == Severity::kNote ? "because" : "expected", worst.because, width);
  text += indented("fix", worst.fix, width);
  for (const std::string& proof : proof_texts(diagnosis, group)) {
    text += indented("proof", proof, width);
  }
  return text;
}

}  // namespace

bool Diagnosis::sound() const {
  return std::ranges::all_of(findings,
                             [](const Finding& f) { return f.severity == Severity::kNote; });
}

std::string doctor_text(const Diagnosis& diagnosis, int width) {
  const std::vector<Group> groups = grouped(diagnosis.findings);
  const std::size_t defects = count_defects(groups);
  std::string text = wrap(
      fmt::format("{}: {}", diagnosis.subject.name, model_text(diagnosis.subject.profile.model)),
      width);
  text += "\n";
  if (!diagnosis.subject.measured_on.empty()) {
    text += paint(Ink::kFaint, input_text(diagnosis.subject)) + "\n";
  }
  text += fmt::format("{}\n", paint(defects == 0 ? Ink::kGood : Ink::kBad, verdict_text(defects)));
  for (const Group& group : groups) {
    text += "\n" + group_text(diagnosis, group, width);
  }
  const std::vector<LayerNumbers> rows =
      layer_numbers(diagnosis.subject, last_step(diagnosis.subject.profile));
  if (!rows.empty()) {
    text += fmt::format("\n{}\n", paint(Ink::kStrong, "By layer"));
    text += to_text(layer_table(rows, 16), width);
    text += paint(Ink::kFaint, wrap(kLayerCaption, width)) + "\n";
    const std::string depth = depth_text(rows);
    if (!depth.empty()) text += "\n" + wrap(depth, width) + "\n";
  }
  return text;
}

namespace {

/// What `one` finds and `other` does not, by rule and place.
std::string only_in(const Diagnosis& one, const Diagnosis& other, std::string_view label,
                    int width) {
  std::string text;
  for (const Finding& finding : one.findings) {
    const bool shared = std::ranges::any_of(other.findings, [&](const Finding& f) {
      return f.rule == finding.rule && f.where == finding.where;
    });
    if (shared || finding.severity == Severity::kNote) continue;
    text += wrap(fmt::format("{} {}: {}, {}: {}", look(finding.severity).mark, label, finding.rule,
                             finding.where, finding.what),
                 width) +
            "\n";
  }
  return text;
}

/// Where a number of both differs by more than a hundredth for the first time on the way forward;
/// gradients, which come back, are looked at last.
std::string parting(const std::vector<LayerNumbers>& one, const std::vector<LayerNumbers>& other) {
  bool any = false;
  for (const bool forward : {true, false}) {
    for (std::size_t l = 0; l < std::min(one.size(), other.size()); ++l) {
      for (const LayerColumn& column : kLayerColumns) {
        if (forward == (column.member == &LayerNumbers::gradient)) continue;
        const double a = one[l].*column.member;
        const double b = other[l].*column.member;
        any |= !std::isnan(a - b);
        if (!(std::abs(a - b) > 0.01 * std::max(std::abs(a), std::abs(b)))) continue;
        return fmt::format("They part at layer {}: {} is {} and {}.", l, column.name,
                           short_number(a), short_number(b));
      }
    }
  }
  return any ? "No number by layer differs by more than 1 %."
             : "No number by layer was measured in both.";
}

}  // namespace

std::string comparison_text(const Diagnosis& one, const Diagnosis& other, int width) {
  const std::vector<LayerNumbers> rows = layer_numbers(one.subject, last_step(one.subject.profile));
  std::vector<LayerNumbers> ratios = layer_numbers(other.subject, last_step(other.subject.profile));
  require(rows.size() == ratios.size(), "{} has {} layers, {} has {}: nothing to compare",
          one.subject.name, rows.size(), other.subject.name, ratios.size());
  std::string text =
      wrap(fmt::format("{} against {}", other.subject.name, one.subject.name), width);
  text += "\n" + only_in(one, other, "gone", width) + only_in(other, one, "new", width);
  text += parting(rows, ratios) + "\n";
  for (std::size_t l = 0; l < rows.size(); ++l) {
    for (const LayerColumn& column : kLayerColumns)
      ratios[l].*column.member /= rows[l].*column.member;
  }
  text += fmt::format("\n{}\n", paint(Ink::kStrong, "By layer, as multiples"));
  return text + to_text(layer_table(ratios, 16), width);
}

std::string doctor_json(const Diagnosis& diagnosis) {
  const ProfileModel& model = diagnosis.subject.profile.model;
  const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(); };
  Json findings = Json::array();
  for (const Finding& f : diagnosis.findings) {
    const bool in_layer = f.site && (f.site->sublayer == SublayerKind::kAttention ||
                                     f.site->sublayer == SublayerKind::kFeedForward);
    findings.push_back({{"rule", f.rule},
                        {"severity", look(f.severity).name},
                        {"where", f.where},
                        {"layer", in_layer ? Json(f.site->layer) : Json()},
                        {"sublayer", f.site ? Json(sublayer_name(f.site->sublayer)) : Json()},
                        {"what", f.what},
                        {"because", f.because},
                        {"fix", f.fix},
                        {"measured", number(f.measured)},
                        {"expected", number(f.expected)}});
  }
  Json proofs = Json::array();
  for (const Proof& proof : diagnosis.proofs) {
    proofs.push_back({{"rule", proof.rule},
                      {"change", proof.change},
                      {"steps", proof.steps},
                      {"number", proof.number},
                      {"before", number(proof.before)},
                      {"after", number(proof.after)},
                      {"mended", proof.was_seen && proof.is_mended}});
  }
  const std::vector<LayerNumbers> rows =
      layer_numbers(diagnosis.subject, last_step(diagnosis.subject.profile));
  Json layers = Json::array();
  for (const LayerNumbers& row : rows) {
    Json layer{{"layer", row.layer}};
    for (const LayerColumn& column : kLayerColumns) {
      if (std::isfinite(row.*column.member)) layer[column.key] = row.*column.member;
    }
    layers.push_back(std::move(layer));
  }
  const Json document{{"target", diagnosis.subject.name},
                      {"status", diagnosis.sound() ? "sound" : "findings"},
                      {"model",
                       {{"type", model.model_type},
                        {"placement", model.placement},
                        {"norm", model.norm},
                        {"eps", model.eps},
                        {"d_model", model.d_model},
                        {"n_layers", model.n_layers},
                        {"parameters", model.parameters}}},
                      {"loss", number(diagnosis.subject.loss)},
                      {"findings", std::move(findings)},
                      {"proofs", std::move(proofs)},
                      {"effective_depth", number(effective_depth(rows))},
                      {"layers", std::move(layers)}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace addnorm
