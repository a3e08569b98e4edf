#pragma once

#include <array>
#include <functional>
#include <string>

#include "base/time_account.h"
#include "run/metrics.h"
#include "run/run_config.h"
#include "run/run_folder.h"

namespace addnorm::run {

/// What a run reports as it trains.
struct RunEvents {
  std::function<void(const StepMetrics&)> on_step = {};
  std::function<void(const Validation&)> on_validation = {};
  /// Asked after each step; true in any process: stop there, with a checkpoint.
  std::function<bool()> wants_stop = {};
};

struct RunOutcome {
  enum class End {
    kFinished,   ///< all steps are made
    kStopped,    ///< because wants_stop() said so
    kNotFinite,  ///< a loss or a gradient was infinite or NaN
  };
  End end = End::kFinished;
  std::size_t steps = 0;
  double validation_loss = 0;  ///< the last one; NaN: none
  std::string problem = {};    ///< what was not finite, and where it appeared first
  /// Of all steps made here, in the order of Cost.
  std::array<double, kCostNames.size()> seconds = {};
};

/// Trains until all steps are made, and leaves config.json, metrics, profiles and checkpoints in
/// the folder, of which the caller has the RunLock. Where there is a checkpoint it goes on with
/// that, to the same bits as a run without a break. `text` is what config.text holds. Of several
/// processes, which all call this alike, the first writes, the others read its checkpoint; it has
/// the lock.
RunOutcome run_training(const RunConfig& config, const RunFiles& files, const train::ByteText& text,
                        const RunEvents& events, train::Communicator& world = train::one_process());

/// Leaves in the folder, which has no checkpoint, what stands there before the first step: the
/// configuration and a checkpoint of the network as it is drawn.
void begin_training(const RunConfig& config, const RunFiles& files, const train::ByteText& text);

/// Reads a configuration from a JSON file; what it does not name is as in `base`.
RunConfig read_config(const std::string& file, RunConfig base = {});

}  // namespace addnorm::run
