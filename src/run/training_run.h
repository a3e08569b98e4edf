#pragma once

#include <array>
#include <functional>
#include <string>

#include "base/time_account.h"
#include "run/metrics.h"
#include "run/run_config.h"
#include "run/run_folder.h"

namespace addnorm::run {

/// Callbacks of a run during training.
struct RunEvents {
  std::function<void(const StepMetrics&)> on_step = {};
  std::function<void(const Validation&)> on_validation = {};
  /// Called after each step. If it returns true in any process, the run stops there, with a
  /// checkpoint.
  std::function<bool()> wants_stop = {};
  /// Called before the first step if the folder's metrics lack steps before the checkpoint, with
  /// their number.
  std::function<void(std::size_t)> on_missing_steps = {};
};

struct RunOutcome {
  enum class End {
    kFinished,   ///< all steps are done
    kStopped,    ///< wants_stop() returned true
    kNotFinite,  ///< a loss or a gradient was infinite or NaN
  };
  End end = End::kFinished;
  std::size_t steps = 0;
  double validation_loss = 0;  ///< the last one; NaN: none
  std::string problem = {};    ///< what was not finite, and where it appeared first
  /// Seconds spent in each Cost since this run began.
  std::array<double, kCostNames.size()> seconds = {};
};

/// Trains until all steps are done. Writes config.json, metrics, profiles and checkpoints to the
/// folder, whose RunLock the caller holds. If there is a checkpoint, training resumes from it, with
/// the same bits as an uninterrupted run. `text` is the content of config.text. With several
/// processes, all call this with the same arguments. The first has the lock and writes; the others
/// read its checkpoint.
RunOutcome run_training(const RunConfig& config, const RunFiles& files, const train::ByteText& text,
                        const RunEvents& events, train::Communicator& world = train::one_process());

/// Writes the state before the first step to the folder, which has no checkpoint: the configuration
/// and a checkpoint of the network with its initial weights.
void begin_training(const RunConfig& config, const RunFiles& files, const train::ByteText& text);

/// Reads a configuration from a JSON file; missing settings are those of `base`.
RunConfig read_config(const std::string& file, RunConfig base = {});

}  // namespace addnorm::run
