#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "report/terminal.h"
#include "run/memory.h"
#include "run/training_run.h"

/// The texts of `addnorm train`.

namespace addnorm::cli {

/// Returns the end of its help.
std::string train_help();

/// Returns the text before the first step: the model, and the memory of each of `processes`
/// processes.
std::string start_text(const run::RunConfig& config, const run::MemoryEstimate& memory,
                       std::size_t text_bytes, std::size_t processes);

/// Returns the text after a run: how it ended, and possible next commands.
std::string end_text(const run::RunOutcome& outcome, const run::RunFiles& files);

/// Shows the progress of a run: a bar, and a line for each validation.
class TrainWatch {
 public:
  TrainWatch(const run::RunConfig& config, report::Terminal& terminal)
      : terminal_(terminal), steps_(config.steps) {}

  void step(const run::StepMetrics& m);
  void validation(const run::Validation& v);
  /// Says that the metrics of steps before the checkpoint are not in the run's folder.
  void missing_steps(std::size_t count, const run::RunFiles& files);

 private:
  std::string rate_text() const;

  report::Terminal& terminal_;
  report::Terminal screen_{stderr};
  std::size_t steps_;
  std::optional<report::ProgressBar> bar_;
  run::StepMetrics first_ = {};
  run::StepMetrics last_ = {};
};

}  // namespace addnorm::cli
