#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "addnorm/nn/initialize.h"
#include "lab/figure.h"
#include "train/trainer.h"

namespace addnorm::lab {

/// The smallest significant difference of losses, in nats per byte. A model counts as trained if
/// its loss is that much below the loss of byte frequencies. A difference of losses must also
/// exceed twice its spread over the seeds.
inline constexpr double kLearned = 0.1;

/// A small decoder over bytes, and its training. Its heads are 16 features wide; if 16 does not
/// divide the width, it has one head.
struct TrainingJob {
  std::string placement;  ///< parse_placements()
  std::size_t layers = 0;
  std::size_t width = 0;  ///< features of the stream, and of each feed-forward
  std::size_t context = 32;
  std::size_t batch = 8;
  std::size_t steps = 0;
  train::LearningRate learning_rate;
  Initialization initialization = Initialization::kTorch;
};

/// One job for each x.
struct TrainingCurve {
  std::string name;
  std::vector<double> x;
  std::vector<TrainingJob> jobs;
};

/// Returns the job at each of these depths.
TrainingCurve at_depths(std::string name, TrainingJob job, const std::vector<std::size_t>& layers);

/// The result of training on the options' text, with their seeds and their bug: the loss on
/// held-out text in nats per byte, infinite if a run diverged.
class TrainedCurves {
 public:
  TrainedCurves(const std::vector<TrainingCurve>& plan, const FigureOptions& options);

  const std::vector<Series>& losses() const { return losses_; }
  /// Returns the loss of a model that knows only the frequencies of bytes, as a reference line.
  Series unigram_curve() const;

  /// A claim that the curve at x is at least 0.1 nats below byte frequencies, or that it is not.
  /// Not applicable if there is no such curve or x.
  struct Claim {
    Message text;
    Message source;
    std::string curve;
    double x = 0;
    Message unmet = {};  ///< the assumption that does not hold
  };
  Check trains(const Claim& claim) const;
  Check fails(const Claim& claim) const;
  /// Checks that every run of the curve at x diverged, or that none did.
  Check diverges(const Claim& claim) const;
  Check stays_finite(const Claim& claim) const;

 private:
  /// Returns the losses of the claim's runs, by seed; empty, with check.unmet, if there are none.
  std::vector<double> losses_of(const Claim& claim, Check& check) const;
  Check gain_between(const Claim& claim, double low, double high) const;
  Check diverged_share(const Claim& claim, double share) const;

  std::vector<std::vector<std::vector<double>>> runs_;  ///< by curve, seed and x
  std::vector<Series> losses_;
  double unigram_loss_;
};

}  // namespace addnorm::lab
