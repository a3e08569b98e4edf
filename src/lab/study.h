#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "addnorm/nn/initialize.h"
#include "base/message.h"
#include "lab/training.h"
#include "probe/profiler.h"
#include "run/run_config.h"
#include "train/byte_text.h"

namespace addnorm::lab {

/// The default settings of a study's models: they train in a minute.
inline run::RunConfig study_config() {
  return {.layers = 12,
          .width = 64,
          .heads = 4,
          .activation = "relu",
          .initialization = "torch",
          .context = 32,
          .batch = 8,
          .steps = 200,
          .learning_rate = 4e-3,
          .warm_up = 0,
          .decay = "none",
          .weight_decay = 0,
          .beta2 = 0.999,
          .clip = 0};
}

struct StudyOptions {
  std::vector<std::string> placements = {"plain", "none", "post", "pre"};  ///< parse_placements()
  std::size_t seeds = 3;
  /// The settings of every model, as far as Setting::in_study. warm_up is for the runs with
  /// warm-up; 0 means half of the steps. seed is the first seed, and the others follow.
  run::RunConfig config = study_config();

  std::size_t warm_up() const {
    return config.warm_up > 0 ? config.warm_up : std::max<std::size_t>(1, config.steps / 2);
  }
  Initialization initialization() const {
    return parse<Initialization>("init", config.initialization);
  }
};

/// One model, measured before training and trained once.
struct StudyRun {
  std::string placement;
  Initialization initialization = Initialization::kTorch;
  std::uint64_t seed = 0;
  std::size_t warm_up = 0;
  std::vector<probe::ProfileEntry> initial;  ///< forward and backward on one batch before training
  std::size_t parameters = 0;
  std::vector<double> losses;  ///< at each step, up to the end or the first loss that is not finite
  double validation_loss = 0;  ///< infinite if the run diverged
  bool diverged() const;
};

struct Study {
  StudyOptions options;
  std::size_t text_bytes = 0;
  double unigram_loss = 0;     ///< train::ByteText::unigram_loss()
  std::vector<StudyRun> runs;  ///< by placement, seed, then without and with warm-up
  std::vector<StudyRun> other_initializations;  ///< by placement and seed: measured, not trained
};

/// Throws an Error unless every option is valid; needs no text.
void check_study(const StudyOptions& options);

/// Trains every placement with every seed, without and with warm-up, and measures the other
/// initializations without training them. Each thread runs one model at a time, so the numbers do
/// not depend on the number of threads. `progress` receives the number of finished steps of all
/// runs, from one thread at a time.
Study run_study(const StudyOptions& options, const train::ByteText& text,
                const std::function<void(std::size_t done, std::size_t all)>& progress);

/// A mean over seeds with its standard deviation (0 for one seed).
struct Spread {
  double mean = 0;
  double deviation = 0;
};
Spread spread_of(const std::vector<double>& values);

/// Signal and gradient by layer at initialization: index l is the input of layer l, the last index
/// the output of the last layer. One inner vector for each seed.
struct LayerCurves {
  std::vector<std::vector<double>> stream_rms;
  std::vector<std::vector<double>> gradient_rms;
};

/// The ratio of the sizes at both ends of a stack at initialization; infinite if one is not finite.
struct EndRatios {
  Initialization initialization = Initialization::kTorch;
  double stream = 1;    ///< RMS of the last layer's output over that of the first layer's input
  double gradient = 1;  ///< RMS of layer 0's gradient over the last layer's
  bool sound() const;   ///< whether both are between 1/100 and 100
};

enum class Strength { kVanishes, kKeeps, kExplodes };
enum class Training { kFails, kNeedsWarmUp, kTrains };

/// The result of a placement's runs, in numbers and in words.
struct StudyFinding {
  std::string placement;
  LayerCurves curves;
  std::vector<double> stream_by_layer;    ///< geometric means over seeds
  std::vector<double> gradient_by_layer;  ///< geometric means over seeds
  EndRatios ends;                         ///< of the initialization used in training
  std::vector<EndRatios> other_ends;      ///< of the other initializations
  Strength stream = Strength::kKeeps;
  Strength gradient = Strength::kKeeps;
  std::size_t diverged = 0;  ///< runs whose loss became infinite or NaN
  Spread without_warm_up;    ///< validation loss in nats per byte
  Spread with_warm_up;
  Training training = Training::kTrains;
  Message verdict;                    ///< one sentence made from the numbers
  std::vector<StudyFinding> by_seed;  ///< of each seed alone; empty in these themselves

  /// Whether the two findings agree on stream, gradient and training.
  bool agrees_with(const StudyFinding& other) const;
  /// Returns the number of seeds that agree, each alone, with the whole.
  std::size_t agreeing_seeds() const;
};

enum class Holds { kYes, kPartly, kNo };

/// A claim of the literature that the study can refute.
struct StudyClaim {
  Message claim;
  std::string source;
  Holds holds = Holds::kNo;
  Message evidence;
  std::size_t agreeing_seeds = 0;  ///< number of seeds with the same `holds`
};

std::vector<StudyFinding> study_findings(const Study& study);
/// Returns the claims about placements that were studied.
std::vector<StudyClaim> study_claims(const std::vector<StudyFinding>& findings);

}  // namespace addnorm::lab
