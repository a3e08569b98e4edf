#include "doctor/prove.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "base/require.h"
#include "io/temporary_folder.h"

namespace addnorm::doctor {
namespace {

/// Returns the worst finding of each rule that has a remedy of this kind.
std::vector<Finding> findings_to_try(const std::vector<Finding>& findings, bool by_training) {
  std::vector<Finding> chosen;
  for (Finding finding : findings) {
    std::erase_if(finding.remedies, [&](const Remedy& remedy) {
      return by_training ? !remedy.settings : !remedy.recipe;
    });
    if (finding.remedies.empty()) continue;
    const auto same = std::ranges::find(chosen, finding.rule, &Finding::rule);
    if (same == chosen.end()) {
      chosen.push_back(std::move(finding));
    } else if (finding.badness() > same->badness()) {
      *same = std::move(finding);
    }
  }
  return chosen;
}

Subject examined(OpenedModel run, const train::ByteText& text) {
  examine(run.model, text_tokens(text, run.subject.config->context), run.subject);
  run.subject.unigram_loss = text.unigram_loss();
  return std::move(run.subject);
}

/// Returns the subject that the doctor would examine for these settings.
Subject draw(const run::RunConfig& config, const train::ByteText& text) {
  const io::TemporaryFolder folder;
  return examined(open_settings(config, folder.path(), text), text);
}

/// Returns the measured number, or infinity if training stopped.
double number_of(const Measure& measure, const Subject& subject) {
  return subject.metrics.stopped.empty() ? measure.of(subject)
                                         : std::numeric_limits<double>::infinity();
}

Proof compare(const Finding& finding, const Remedy& remedy, const Subject& before,
              const Subject& after) {
  const Measure& measure = finding.measure;
  Proof proof{.rule = finding.rule, .change = remedy.change, .number = measure.name};
  proof.before = number_of(measure, before);
  proof.after = number_of(measure, after);
  const bool has_limit = static_cast<bool>(measure.is_sound);
  proof.was_found = !has_limit || !measure.is_sound(proof.before);
  proof.is_mended = has_limit ? measure.is_sound(proof.after) : proof.after < 0.99 * proof.before;
  return proof;
}

/// Tries the finding's remedies until one mends it; `tried(remedy)` returns the subject after a
/// remedy.
template <typename Try>
void prove(const Finding& finding, const Subject& before, const Try& tried,
           std::vector<Proof>& proofs) {
  if (std::isnan(number_of(finding.measure, before))) return;  // nothing to compare
  for (const Remedy& remedy : finding.remedies) {
    proofs.push_back(compare(finding, remedy, before, tried(remedy)));
    if (proofs.back().is_mended || !proofs.back().was_found) return;
  }
}

/// Subjects by the change of their settings. Each is computed once, because several findings may
/// share a remedy.
class Trials {
 public:
  explicit Trials(std::function<Subject(const run::RunConfig&, const std::string&)> make)
      : make_(std::move(make)) {}

  void know(const std::string& change, const Subject& subject) { made_.emplace(change, subject); }

  const Subject& of(const run::RunConfig& config, const std::string& change) {
    const auto found = made_.find(change);
    if (found != made_.end()) return found->second;
    return made_.emplace(change, make_(config, change)).first->second;
  }

 private:
  std::function<Subject(const run::RunConfig&, const std::string&)> make_;
  std::map<std::string, Subject> made_;
};

}  // namespace

OpenedModel open_settings(const run::RunConfig& config, const std::string& folder,
                          const train::ByteText& text) {
  const run::RunFiles files(folder);
  run::begin_training(config, files, text);
  return open_run(files);
}

/// The learning rate follows the schedule of the whole run, although training stops after `steps`
/// steps.
Subject try_settings(const run::RunConfig& asked, const train::ByteText& text, std::size_t steps,
                     const run::RunEvents& events) {
  run::RunConfig config = asked;
  const io::TemporaryFolder folder;
  const run::RunFiles files(folder.path());
  config.validate_every = config.steps;
  config.profile_every = steps;
  config.checkpoint_every = steps;
  std::size_t made = 0;
  const auto is_stopped = [&] { return events.wants_stop && events.wants_stop(); };
  const run::RunOutcome outcome =
      run::run_training(config, files, text,
                        {.on_step =
                             [&](const run::StepMetrics& metrics) {
                               made = metrics.step;
                               if (events.on_step) events.on_step(metrics);
                             },
                         .wants_stop = [&] { return made >= steps || is_stopped(); }});
  require(!is_stopped(), "stopped while a fix was tried");
  if (outcome.end != run::RunOutcome::End::kNotFinite) return examined(open_run(files), text);
  Subject subject = read_run(files);  // there is no checkpoint
  subject.unigram_loss = text.unigram_loss();
  return subject;
}

std::vector<Proof> prove_by_training(const Subject& subject, const std::vector<Finding>& findings,
                                     const train::ByteText& text, std::size_t steps,
                                     const TrialEvents& events) {
  const run::RunConfig& config = *subject.config;
  steps = std::min<std::size_t>(steps, config.steps);
  Trials drawn([&](const run::RunConfig& c, const std::string&) { return draw(c, text); });
  Trials trained([&](const run::RunConfig& c, const std::string& change) {
    return try_settings(c, text, steps, events ? events(change) : run::RunEvents());
  });
  // Training again for as many steps would give the same bits as this run.
  if (subject.metrics.steps.size() == steps) trained.know("", subject);
  std::vector<Proof> proofs;
  for (const Finding& finding : findings_to_try(findings, true)) {
    Trials& trials = finding.measure.is_initial ? drawn : trained;
    const std::size_t first = proofs.size();
    const auto tried = [&](const Remedy& remedy) -> const Subject& {
      run::RunConfig changed = config;
      remedy.settings(changed);
      return trials.of(changed, remedy.change);
    };
    prove(finding, trials.of(config, ""), tried, proofs);
    if (finding.measure.is_initial) continue;
    for (std::size_t i = first; i < proofs.size(); ++i) proofs[i].steps = steps;
  }
  return proofs;
}

std::vector<Proof> prove_by_running(const std::string& path, const Subject& subject,
                                    const std::vector<Finding>& findings, const Tokens& tokens) {
  std::vector<Proof> proofs;
  const auto tried = [&](const Remedy& remedy) {
    OpenedModel model = open_model(path, remedy.recipe);
    examine(model.model, tokens, model.subject);
    return std::move(model.subject);
  };
  for (const Finding& finding : findings_to_try(findings, false)) {
    prove(finding, subject, tried, proofs);
  }
  return proofs;
}

}  // namespace addnorm::doctor
