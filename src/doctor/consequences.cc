#include "doctor/consequences.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "doctor/places.h"

namespace addnorm::doctor {
namespace {

enum class Reach { kLayer, kLayersBefore, kAnywhere, kTokens, kSequences };

struct Consequence {
  std::string_view cause, effect;
  Reach reach;
};
constexpr Consequence kConsequences[] = {
    {"branch-detached", "gradient-missing", Reach::kLayer},
    {"residual-detached", "gradient-missing", Reach::kLayersBefore},
    {"norm-axis", "future-leak", Reach::kTokens},
    {"norm-axis", "padding-leak", Reach::kTokens},
    {"norm-axis", "batch-leak", Reach::kSequences},
    {"residual-missing", "norm-misplaced", Reach::kLayer},
    {"rounded-statistics", "cast-to-half", Reach::kAnywhere},
    {"dead-norm", "gradient-zero", Reach::kLayer},
    {"idle-sublayer", "gradient-zero", Reach::kLayer},
    {"norm-overflow", "gradient-zero", Reach::kLayer},
    {"dropout-on-stream", "sum-unexplained", Reach::kLayer},
};

/// Whether a rule can be a cause. No effect is itself a cause.
constexpr bool is_cause(std::string_view rule) {
  return std::ranges::any_of(kConsequences, [&](const Consequence& c) { return c.cause == rule; });
}
static_assert(std::ranges::none_of(kConsequences,
                                   [](const Consequence& c) { return is_cause(c.effect); }));

bool are_near(const Finding& cause, const Finding& effect) {
  if (cause.site && effect.site) {
    return cause.site->in_layer() && effect.site->in_layer() &&
           cause.site->layer == effect.site->layer;
  }
  return !cause.module.empty() && is_within(effect.where, cause.module, '.');
}

/// Whether a norm shares its statistics over this axis, and the leak concerns the whole model or
/// the norm's layer.
bool leaks(const Finding& norm, const Finding& leak, std::string_view axis) {
  const bool mixes = norm.shared_axes.find(axis) != std::string::npos;
  return mixes && (leak.where == "output" || are_near(norm, leak));
}

using Modules = std::vector<std::string>;

/// Whether the effect is in the layer of its cause or an earlier one, or in no layer. A module that
/// holds later layers, such as their list, is not.
bool is_before(const Finding& cause, const Finding& effect, const Modules& layers) {
  if (!cause.site || cause.site->layer >= layers.size()) return true;
  const auto last = layers.begin() + static_cast<std::ptrdiff_t>(cause.site->layer) + 1;
  const auto holds = [&](const std::string& layer) { return is_within(effect.where, layer, '.'); };
  return std::any_of(layers.begin(), last, holds) ||
         std::none_of(last, layers.end(), [&](const std::string& layer) {
           return holds(layer) || is_within(layer, effect.where, '.');
         });
}

bool reaches(Reach reach, const Finding& cause, const Finding& effect, const Modules& layers) {
  switch (reach) {
    case Reach::kLayer:
      return are_near(cause, effect);
    case Reach::kLayersBefore:
      return is_before(cause, effect, layers);
    case Reach::kAnywhere:
      return true;
    case Reach::kTokens:
      return leaks(cause, effect, "tokens");
    default:
      return leaks(cause, effect, "sequences");
  }
}

bool follows(const Finding& effect, const Finding& cause, const Modules& layers) {
  return cause.severity <= effect.severity &&
         std::ranges::any_of(kConsequences, [&](const Consequence& c) {
           return c.cause == cause.rule && c.effect == effect.rule &&
                  reaches(c.reach, cause, effect, layers);
         });
}

}  // namespace

void fold_consequences(std::vector<Finding>& findings, const Modules& layer_modules) {
  std::vector<std::pair<std::size_t, std::string>> folded;  // index of the cause, and its effect
  for (std::size_t i = 0; i < findings.size(); ++i) {
    const auto cause = std::ranges::find_if(
        findings, [&](const Finding& other) { return follows(findings[i], other, layer_modules); });
    if (cause == findings.end()) continue;
    folded.emplace_back(cause - findings.begin(),
                        fmt::format("{}, {}", findings[i].rule, findings[i].where));
    findings[i].rule = {};
  }
  for (auto& [cause, effect] : folded) findings[cause].leads_to.push_back(std::move(effect));
  std::erase_if(findings, [](const Finding& finding) { return finding.rule.empty(); });
}

}  // namespace addnorm::doctor
