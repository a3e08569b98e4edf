#include "report/doctor_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/require.h"

namespace addnorm::report {
namespace {

std::vector<const doctor::Finding*> only_in(const Diagnosis& one, const Diagnosis& other) {
  std::vector<const doctor::Finding*> only;
  for (const doctor::Finding& finding : one.findings) {
    const bool is_shared = std::ranges::any_of(other.findings, [&](const doctor::Finding& f) {
      return f.rule == finding.rule && f.where == finding.where;
    });
    if (!is_shared && finding.severity != doctor::Severity::kNote) only.push_back(&finding);
  }
  return only;
}

std::optional<Comparison::Parting> find_parting(const std::vector<doctor::LayerNumbers>& one,
                                                const std::vector<doctor::LayerNumbers>& other) {
  for (const bool forward : {true, false}) {
    for (std::size_t l = 0; l < one.size(); ++l) {
      for (const LayerColumn& column : kLayerColumns) {
        if (forward == (column.member == &doctor::LayerNumbers::gradient)) continue;
        const double a = one[l].*column.member;
        const double b = other[l].*column.member;
        if (std::abs(a - b) > 0.01 * std::max(std::abs(a), std::abs(b))) {
          return Comparison::Parting{l, &column, a, b};
        }
      }
    }
  }
  return std::nullopt;
}

}  // namespace

Comparison compare(const Diagnosis& one, const Diagnosis& other) {
  const std::vector<doctor::LayerNumbers> rows =
      doctor::layer_numbers(one.subject, doctor::last_step(one.subject.profile));
  const std::vector<doctor::LayerNumbers> others =
      doctor::layer_numbers(other.subject, doctor::last_step(other.subject.profile));
  require(rows.size() == others.size(), "{} has {} layers, {} has {}: nothing to compare",
          one.subject.name, rows.size(), other.subject.name, others.size());
  Comparison comparison{.gone = only_in(one, other),
                        .added = only_in(other, one),
                        .parting = find_parting(rows, others),
                        .multiples = others};
  for (std::size_t l = 0; l < rows.size(); ++l) {
    for (const LayerColumn& column : kLayerColumns) {
      double& multiple = comparison.multiples[l].*column.member;
      comparison.is_measured |= !std::isnan(multiple - rows[l].*column.member);
      multiple /= rows[l].*column.member;
    }
  }
  return comparison;
}

std::string group_text(const Group& group) {
  const doctor::Finding& worst = group.worst();
  return fmt::format("{}, {}: {}", worst.rule, places(group), worst.what);
}

std::string parting_text(const Comparison& comparison) {
  if (!comparison.is_measured) return "No per-layer number was measured in both.";
  if (!comparison.parting) return "No per-layer number differs by more than 1 %.";
  const Comparison::Parting& p = *comparison.parting;
  return fmt::format("They first differ at layer {}: {} is {} and {}.", p.layer, p.number->name,
                     short_number(p.one), short_number(p.other));
}

}  // namespace addnorm::report
