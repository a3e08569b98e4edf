#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "doctor/finding.h"

/// Remedies that several rules propose. A subject without settings has none, and remedies that
/// change nothing are left out.

namespace addnorm::doctor {

/// A sufficient number of learning-rate warm-up steps for the stacks in docs/doctor.md.
inline constexpr std::size_t kWarmUpSteps = 100;

/// Its description is generated: "warm-up 0 → 100".
using SettingsChange = std::function<void(run::RunConfig&)>;
std::vector<Remedy> change_settings(const Subject& subject,
                                    const std::vector<SettingsChange>& changes);

void quarter_learning_rate(run::RunConfig& config);
void usual_learning_rate(run::RunConfig& config);  ///< 1e-3, with which most networks train
void warm_up_longer(run::RunConfig& config);
void place_pre(run::RunConfig& config);

/// Returns the measure for other recipes: the loss on the same tokens.
Measure loss_measure();

}  // namespace addnorm::doctor
