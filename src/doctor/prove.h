#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/examine.h"
#include "doctor/finding.h"
#include "doctor/open_model.h"
#include "run/training_run.h"

namespace addnorm::doctor {

/// What became of a finding when its remedy was tried.
struct Proof {
  std::string_view rule;
  std::string change;     ///< what was tried
  std::string number;     ///< what is compared, in words
  double before = 0;      ///< it, without the change; infinite where training stopped
  double after = 0;       ///< and with it
  bool was_seen = false;  ///< whether it was a finding without the change
  bool is_mended = false;
  std::size_t steps = 0;  ///< of training; 0: the network was run and not trained
};

/// A run's settings at step 0, before it trains: draws the network in `folder` and opens it.
OpenedModel open_settings(const run::RunConfig& config, const std::string& folder,
                          const train::ByteText& text);

/// What the doctor sees of a run by these settings that stops after `steps` steps. Throws Error
/// where `events` want to stop.
Subject try_settings(const run::RunConfig& config, const train::ByteText& text, std::size_t steps,
                     const run::RunEvents& events = {});

/// Trains `steps` steps with the subject's settings, and for each finding that has remedies as many
/// with these, one after the other until one mends it, on the same windows of `text`. What shows
/// before training is looked at there. Throws Error where the events want to stop. `events`
/// gives those of each run, by what it changes ("" for none).
using TrialEvents = std::function<run::RunEvents(const std::string& change)>;
std::vector<Proof> prove_by_training(const Subject& subject, const std::vector<Finding>& findings,
                                     const train::ByteText& text, std::size_t steps,
                                     const TrialEvents& events = {});

/// Likewise runs the model of `path` on the tokens by the remedies' recipes; `subject` is how it
/// was found.
std::vector<Proof> prove_by_running(const std::string& path, const Subject& subject,
                                    const std::vector<Finding>& findings, const Tokens& tokens);

}  // namespace addnorm::doctor
