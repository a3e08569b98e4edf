#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "addnorm/nn/initialize.h"
#include "lab/figure.h"
#include "train/trainer.h"

namespace addnorm::lab {

/// Nats a byte below byte frequencies alone from which on a model counts as trained, and which a
/// difference of losses must exceed, besides twice its spread over the seeds.
inline constexpr double kLearned = 0.1;

/// A small decoder over bytes, and how it is trained. Its heads are 16 features wide; where these
/// do not divide the width it has one.
struct TrainingJob {
  std::string placement;  ///< parse_placements()
  std::size_t layers = 0;
  std::size_t width = 0;  ///< of the stream, and of each feed-forward
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

/// The job at each of these depths.
TrainingCurve at_depths(std::string name, TrainingJob job, const std::vector<std::size_t>& layers);

/// What training on the options' text leads to, with their seeds and their bug: the loss in nats a
/// byte on text kept aside, infinite where a run diverged.
class TrainedCurves {
 public:
  TrainedCurves(const std::vector<TrainingCurve>& plan, const FigureOptions& options);

  const std::vector<Series>& losses() const { return losses_; }
  /// The loss of a model that knows how frequent bytes are, and nothing else: a line to be laid
  /// under the losses.
  Series unigram_curve() const;

  /// That the curve at x has learned more than byte frequencies, by 0.1 nats, or has not. Not
  /// applicable where there is no such curve or x.
  struct Claim {
    std::string text;
    std::string source;
    std::string curve;
    double x = 0;
    std::string unmet = {};  ///< what it assumes and does not hold
  };
  Check trains(const Claim& claim) const;
  Check fails(const Claim& claim) const;
  /// That every run of the curve at x diverged, or none.
  Check diverges(const Claim& claim) const;
  Check stays_finite(const Claim& claim) const;

 private:
  /// The losses of the claim's runs, by seed; empty, with check.unmet, where there are none.
  std::vector<double> losses_of(const Claim& claim, Check& check) const;
  Check gain_between(const Claim& claim, double low, double high) const;
  Check diverged_share(const Claim& claim, double share) const;

  std::vector<std::vector<std::vector<double>>> runs_;  ///< by curve, seed and x
  std::vector<Series> losses_;
  double unigram_loss_;
};

}  // namespace addnorm::lab
