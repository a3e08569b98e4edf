#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "report/terminal.h"
#include "run/memory.h"
#include "run/training_run.h"

/// What `addnorm train` says.

namespace addnorm::cli {

/// The foot of its help.
std::string train_help();

/// Before the first step: the model, and the memory that each of so many processes takes.
std::string start_text(const run::RunConfig& config, const run::MemoryEstimate& memory,
                       std::size_t text_bytes, std::size_t processes);

/// How a run has ended, and what may come next.
std::string end_text(const run::RunOutcome& outcome, const run::RunFiles& files);

/// Shows how a run goes on: a bar, and a line for each validation.
class TrainWatch {
 public:
  TrainWatch(const run::RunConfig& config, report::Terminal& terminal)
      : terminal_(terminal), steps_(config.steps) {}

  void step(const run::StepMetrics& m);
  void validation(const run::Validation& v);

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
