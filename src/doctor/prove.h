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

/// The result of trying a finding's remedy.
struct Proof {
  std::string_view rule;
  std::string change;      ///< the remedy that was tried
  std::string number;      ///< the compared number, in words
  double before = 0;       ///< without the change; infinite if training stopped
  double after = 0;        ///< with the change
  bool was_found = false;  ///< whether it was a finding without the change
  bool is_mended = false;
  std::size_t steps = 0;  ///< of training; 0: the network was run but not trained
};

/// Draws the network of a run's settings in `folder`, at step 0, and opens it.
OpenedModel open_settings(const run::RunConfig& config, const std::string& folder,
                          const train::ByteText& text);

/// Returns the subject of a run with these settings that stops after `steps` steps. Throws an Error
/// if `events` want to stop.
Subject try_settings(const run::RunConfig& config, const train::ByteText& text, std::size_t steps,
                     const run::RunEvents& events = {});

/// Trains `steps` steps with the subject's settings. For each finding with remedies it trains as
/// many steps with each remedy, until one mends the finding, on the same windows of `text`. A
/// number that is visible before training is compared there. Throws an Error if the events want to
/// stop. `events` returns those of each run, by its change ("" for none).
using TrialEvents = std::function<run::RunEvents(const std::string& change)>;
std::vector<Proof> prove_by_training(const Subject& subject, const std::vector<Finding>& findings,
                                     const train::ByteText& text, std::size_t steps,
                                     const TrialEvents& events = {});

/// Runs the model of `path` on the tokens with the remedies' recipes; `subject` is the result
/// without them.
std::vector<Proof> prove_by_running(const std::string& path, const Subject& subject,
                                    const std::vector<Finding>& findings, const Tokens& tokens);

}  // namespace addnorm::doctor
