#include "doctor/remedy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

namespace addnorm::doctor {
namespace {

/// "warm-up 0 → 100, steps 50 → 100"
std::string difference(const run::RunConfig& before, const run::RunConfig& after) {
  const auto was = run::to_json(before);
  const auto is = run::to_json(after);
  std::vector<std::string> words;
  for (const auto& [name, value] : was.items()) {
    if (is[name] == value) continue;
    words.push_back(fmt::format("{} {} → {}", name, value.dump(), is[name].dump()));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace

std::vector<Remedy> change_settings(const Subject& subject,
                                    const std::vector<SettingsChange>& changes) {
  std::vector<Remedy> remedies;
  if (!subject.config) return remedies;
  for (const SettingsChange& change : changes) {
    run::RunConfig changed = *subject.config;
    change(changed);
    const std::string words = difference(*subject.config, changed);
    if (!words.empty()) remedies.push_back({.change = words, .settings = change});
  }
  return remedies;
}

void quarter_learning_rate(run::RunConfig& config) {
  config.learning_rate /= 4;
}

void usual_learning_rate(run::RunConfig& config) {
  config.learning_rate = 1e-3;
}

void warm_up_longer(run::RunConfig& config) {
  config.warm_up = std::max<std::uint64_t>(config.warm_up, kWarmUpSteps);
  config.steps = std::max(config.steps, config.warm_up);
}

void place_pre(run::RunConfig& config) {
  config.placement = "pre";
}

Measure loss_measure() {
  return {.name = "loss on the tokens", .of = [](const Subject& subject) { return subject.loss; }};
}

}  // namespace addnorm::doctor
