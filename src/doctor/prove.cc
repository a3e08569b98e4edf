#include "doctor/prove.h"

#include <algorithm>
#include <map>
#include <utility>

#include "io/temporary_folder.h"

namespace addnorm {
namespace {

/// One finding of each rule that has remedies: the worst.
std::vector<const Finding*> findings_to_try(const std::vector<Finding>& findings) {
  std::vector<const Finding*> chosen;
  for (const Finding& finding : findings) {
    const bool is_known = std::ranges::any_of(
        chosen, [&](const Finding* other) { return other->rule == finding.rule; });
    if (!finding.remedies.empty() && !is_known) chosen.push_back(&finding);
  }
  return chosen;
}

/// What the doctor would see of a run of `steps` steps. The rate follows the whole run's plan.
Subject train(RunConfig config, const ByteText& text, std::size_t steps, RunEvents events) {
  const TemporaryFolder folder;
  const RunFiles files(folder.path());
  steps = std::min<std::size_t>(steps, config.steps);
  config.validate_every = config.steps;
  config.profile_every = steps;
  config.checkpoint_every = steps;
  std::size_t made = 0;
  events.on_step = [&, tell = events.on_step](const StepMetrics& metrics) {
    made = metrics.step;
    if (tell) tell(metrics);
  };
  events.wants_stop = [&] { return made >= steps; };
  const RunOutcome outcome = run_training(config, files, text, events);
  if (outcome.end == RunOutcome::End::kNotFinite) {  // there is no checkpoint
    Subject subject = read_run(files);
    subject.unigram_loss = text.unigram_loss();
    return subject;
  }
  OpenedModel run = open_run(files);
  Subject& subject = run.subject;
  examine(run.model, text_tokens(text, config.context), subject);
  subject.unigram_loss = text.unigram_loss();
  return subject;
}

Proof compare(const Finding& finding, const Remedy& remedy, const Subject& before,
              const Subject& after) {
  const Measure& measure = finding.measure;
  Proof proof{.rule = finding.rule, .change = remedy.change, .number = measure.name};
  proof.before = measure.of(before);
  proof.after = measure.of(after);
  const bool has_limit = static_cast<bool>(measure.is_sound);
  proof.was_seen = !has_limit || !measure.is_sound(proof.before);
  proof.is_mended = has_limit ? measure.is_sound(proof.after) : proof.after < 0.99 * proof.before;
  return proof;
}

/// Tries each finding's remedies up to the first that mends it: `tried(remedy)` is the subject
/// then.
template <typename Try>
std::vector<Proof> prove(const Subject& before, const std::vector<Finding>& findings,
                         const Try& tried) {
  std::vector<Proof> proofs;
  for (const Finding* finding : findings_to_try(findings)) {
    for (const Remedy& remedy : finding->remedies) {
      proofs.push_back(compare(*finding, remedy, before, tried(remedy)));
      if (proofs.back().is_mended || !proofs.back().was_seen) break;
    }
  }
  return proofs;
}

}  // namespace

OpenedModel open_settings(const RunConfig& config, const std::string& folder,
                          const ByteText& text) {
  const RunFiles files(folder);
  begin_training(config, files, text);
  return open_run(files);
}

std::vector<Proof> prove_by_training(const Subject& subject, const std::vector<Finding>& findings,
                                     const ByteText& text, std::size_t steps,
                                     const TrialEvents& events) {
  if (findings_to_try(findings).empty()) return {};
  const auto trial = [&](const RunConfig& config, const std::string& change) {
    return train(config, text, steps, events ? events(change) : RunEvents());
  };
  std::map<std::string, Subject> trials;  // several findings may share a remedy
  const auto tried = [&](const Remedy& remedy) {
    if (!trials.contains(remedy.change)) {
      RunConfig config = *subject.config;
      remedy.settings(config);
      trials[remedy.change] = trial(config, remedy.change);
    }
    return trials[remedy.change];
  };
  std::vector<Proof> proofs = prove(trial(*subject.config, ""), findings, tried);
  for (Proof& proof : proofs) proof.steps = steps;
  return proofs;
}

std::vector<Proof> prove_by_running(const std::string& path, const Subject& subject,
                                    const std::vector<Finding>& findings, const Tokens& tokens) {
  return prove(subject, findings, [&](const Remedy& remedy) {
    OpenedModel model = open_model(path, remedy.recipe);
    examine(model.model, tokens, model.subject);
    return std::move(model.subject);
  });
}

}  // namespace addnorm
