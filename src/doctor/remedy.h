#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "doctor/finding.h"

/// Remedies that several rules propose: none where the subject has no settings, or where they would
/// change nothing.

namespace addnorm::doctor {

/// Steps of warm-up that are enough for the stacks that we have seen (docs/doctor.md).
inline constexpr std::size_t kWarmUpSteps = 100;

/// `change` is put into words: "warm-up 0 → 100".
using SettingsChange = std::function<void(run::RunConfig&)>;
std::vector<Remedy> change_settings(const Subject& subject,
                                    const std::vector<SettingsChange>& changes);

void quarter_learning_rate(run::RunConfig& config);
void usual_learning_rate(run::RunConfig& config);  ///< 1e-3, with which most networks train
void warm_up_longer(run::RunConfig& config);
void place_pre(run::RunConfig& config);

/// The measure of other recipes: the loss on the same tokens.
Measure loss_measure();

}  // namespace addnorm::doctor
