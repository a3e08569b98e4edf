#include "doctor/consequences.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace addnorm::doctor {
namespace {

struct Consequence {
  std::string_view cause, effect;
  bool is_near = false;  ///< in the same layer; else anywhere
};
constexpr Consequence kConsequences[] = {
    {"branch-detached", "gradient-missing", true},
    {"residual-detached", "gradient-missing"},  // of the layers before it
    {"norm-axis", "future-leak"},  // a norm over tokens mixes them, one over a batch sequences
    {"norm-axis", "padding-leak"},
    {"norm-axis", "batch-leak"},
    {"residual-missing", "norm-misplaced", true},
    {"dropout-on-stream", "sum-unexplained", true},
};

bool is_part_of(std::string_view module, std::string_view outer) {
  return module == outer || (module.starts_with(outer) && module[outer.size()] == '.');
}

bool are_near(const Finding& cause, const Finding& effect) {
  if (cause.site && effect.site) {
    return cause.site->in_layer() && effect.site->in_layer() &&
           cause.site->layer == effect.site->layer;
  }
  return !cause.module.empty() && is_part_of(effect.where, cause.module);
}

bool follows(const Finding& effect, const Finding& cause) {
  return cause.severity <= effect.severity &&
         std::ranges::any_of(kConsequences, [&](const Consequence& c) {
           return c.cause == cause.rule && c.effect == effect.rule &&
                  (!c.is_near || are_near(cause, effect));
         });
}

}  // namespace

void fold_consequences(std::vector<Finding>& findings) {
  std::vector<std::pair<std::size_t, std::string>> folded;  // what each leads to
  for (std::size_t i = 0; i < findings.size(); ++i) {
    const auto cause = std::ranges::find_if(
        findings, [&](const Finding& other) { return follows(findings[i], other); });
    if (cause == findings.end()) continue;
    folded.emplace_back(cause - findings.begin(),
                        fmt::format("{}, {}", findings[i].rule, findings[i].where));
    findings[i].rule = {};
  }
  for (auto& [cause, effect] : folded) findings[cause].leads_to.push_back(std::move(effect));
  std::erase_if(findings, [](const Finding& finding) { return finding.rule.empty(); });
}

}  // namespace addnorm::doctor
