#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "report/terminal.h"
#include "run/memory.h"
#include "run/training_run.h"

/// What `addnorm train` says.

namespace addnorm {

/// The foot of its help.
std::string train_help();

/// Before the first step: the model, and the memory that each of so many processes takes.
std::string start_text(const RunConfig& config, const MemoryEstimate& memory,
                       std::size_t text_bytes, std::size_t processes);

/// How a run has ended, and what may come next.
std::string end_text(const RunOutcome& outcome, const RunFiles& files);

/// Shows how a run goes on: a bar, and a line for each validation.
class TrainWatch {
 public:
  TrainWatch(const RunConfig& config, Terminal& terminal)
      : terminal_(terminal), steps_(config.steps) {}

  void step(const StepMetrics& m);
  void validation(const Validation& v);

 private:
  std::string rate_text() const;

  Terminal& terminal_;
  Terminal screen_{stderr};
  std::size_t steps_;
  std::optional<ProgressBar> bar_;
  StepMetrics first_ = {};
  StepMetrics last_ = {};
};

}  // namespace addnorm
