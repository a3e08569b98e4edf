#include "lab/training.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "addnorm/nn/placement.h"
#include "base/parallel.h"
#include "base/require.h"

namespace addnorm::lab {
namespace {

constexpr std::size_t kHeadWidth = 16;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// A loss above that of a guess among 256 bytes, 5.5, by more than chance.
constexpr double kDiverged = 10;

Decoder<float> draw(const TrainingJob& job, std::uint64_t seed, const SilentBug* bug) {
  StackPlan plan{.block = {.d_model = job.width,
                           .n_heads = job.width % kHeadWidth == 0 ? job.width / kHeadWidth : 1,
                           .d_ff = job.width,
                           .feed_forward = FeedForwardKind::kRelu},
                 .placements = parse_placements(job.placement, job.layers)};
  if (bug != nullptr) bug->put_into(plan);
  Decoder<float> decoder({.block = plan.block,
                          .placements = plan.placements,
                          .context = job.context,
                          .final_norm = plan.final_norm});
  TorchGenerator generator(seed);
  initialize(decoder, job.initialization, generator);
  return decoder;
}

double train(const TrainingJob& job, const train::ByteText& text, std::uint64_t seed,
             const SilentBug* bug) {
  Decoder<float> decoder = draw(job, seed, bug);
  train::Trainer<float> trainer(
      decoder, text, {.batch = job.batch, .learning_rate = job.learning_rate, .seed = seed + 1});
  const double loss = trainer.run(job.steps);
  if (!(loss < kDiverged)) return kInfinity;
  return loss;
}

/// A run of a curve, an x and a seed.
struct Run {
  std::size_t curve, x;
  std::uint64_t seed;
};
std::vector<Run> runs_of(const std::vector<TrainingCurve>& plan, const FigureOptions& options) {
  std::vector<Run> runs;
  for (std::size_t c = 0; c < plan.size(); ++c) {
    for (std::size_t x = 0; x < plan[c].x.size(); ++x) {
      for (std::uint64_t s = 0; s < options.seeds; ++s) runs.push_back({c, x, s});
    }
  }
  // The longest runs start first, so that no thread runs one alone at the end.
  auto cost = [&](const Run& r) { return plan[r.curve].jobs[r.x].layers; };
  std::ranges::stable_sort(runs, std::greater<>(), cost);
  return runs;
}

}  // namespace

TrainingCurve at_depths(std::string name, TrainingJob job, const std::vector<std::size_t>& layers) {
  TrainingCurve curve{std::move(name), {}, {}};
  for (const std::size_t depth : layers) {
    job.layers = depth;
    curve.x.push_back(static_cast<double>(depth));
    curve.jobs.push_back(job);
  }
  return curve;
}

TrainedCurves::TrainedCurves(const std::vector<TrainingCurve>& plan, const FigureOptions& options) {
  const train::ByteText text(options.text, plan.at(0).jobs.at(0).context);
  unigram_loss_ = text.unigram_loss();
  for (const TrainingCurve& curve : plan) {
    runs_.emplace_back(options.seeds, std::vector<double>(curve.x.size()));
  }
  const std::vector<Run> runs = runs_of(plan, options);
  parallel_jobs(runs.size(), [&](std::size_t i) {
    const auto [c, x, s] = runs[i];
    runs_[c][s][x] = train(plan[c].jobs[x], text, options.seed + s, options.bug);
  });
  for (std::size_t c = 0; c < plan.size(); ++c) {
    losses_.push_back(mean_curve(plan[c].name, plan[c].x, runs_[c]));
  }
}

Series TrainedCurves::unigram_curve() const {
  double first = losses_.at(0).x.at(0);
  double last = first;
  for (const Series& curve : losses_) {
    first = std::min(first, curve.x.front());
    last = std::max(last, curve.x.back());
  }
  return {msg("byte frequencies alone"), {first, last}, {unigram_loss_, unigram_loss_}};
}

std::vector<double> TrainedCurves::losses_of(const Claim& claim, Check& check) const {
  const auto curve = std::ranges::find(losses_, claim.curve, &Series::name);
  if (curve == losses_.end()) {
    check.unmet = msg("{} was not trained", claim.curve);
    return {};
  }
  const auto at = std::ranges::find(curve->x, claim.x);
  if (at == curve->x.end()) {
    check.unmet = msg("{} was not trained at {:g}", claim.curve, claim.x);
    return {};
  }
  std::vector<double> losses;
  for (const auto& seed : runs_[static_cast<std::size_t>(curve - losses_.begin())]) {
    losses.push_back(seed[static_cast<std::size_t>(at - curve->x.begin())]);
  }
  return losses;
}

Check TrainedCurves::gain_between(const Claim& claim, double low, double high) const {
  Check check{
      .claim = claim.text, .source = claim.source, .low = low, .high = high, .unmet = claim.unmet};
  const std::vector<double> losses = losses_of(claim, check);
  if (losses.empty()) return check;  // not applicable
  const double mean =
      std::reduce(losses.begin(), losses.end()) / static_cast<double>(losses.size());
  check.measured = unigram_loss_ - mean;
  check.detail = std::isfinite(mean)
                     ? msg("loss {:.2f}, that of byte frequencies {:.2f}", mean, unigram_loss_)
                     : msg("a run diverged");
  return check;
}

Check TrainedCurves::diverged_share(const Claim& claim, double share) const {
  Check check{.claim = claim.text,
              .source = claim.source,
              .low = share,
              .high = share,
              .unmet = claim.unmet};
  const std::vector<double> losses = losses_of(claim, check);
  if (losses.empty()) return check;
  const auto diverged = std::ranges::count(losses, kInfinity);
  check.measured = static_cast<double>(diverged) / static_cast<double>(losses.size());
  check.detail = msg("{} of {} runs diverged", diverged, losses.size());
  return check;
}

Check TrainedCurves::trains(const Claim& claim) const {
  return gain_between(claim, kLearned, unigram_loss_);
}

Check TrainedCurves::diverges(const Claim& claim) const {
  return diverged_share(claim, 1);
}

Check TrainedCurves::stays_finite(const Claim& claim) const {
  return diverged_share(claim, 0);
}

Check TrainedCurves::fails(const Claim& claim) const {
  return gain_between(claim, -kInfinity, kLearned);
}

}  // namespace addnorm::lab
