#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <span>

#include "doctor/layer_numbers.h"
#include "doctor/placements.h"
#include "doctor/remedy.h"
#include "doctor/rules.h"

namespace addnorm::doctor {
namespace {

/// The number of steps in a median, because a single loss is of a single batch.
constexpr std::size_t kWindow = 20;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Returns the steps whose loss is known; it is unknown where a run stopped.
std::vector<run::StepMetrics> known_steps(const Subject& subject) {
  std::vector<run::StepMetrics> steps;
  std::ranges::copy_if(subject.metrics.steps, std::back_inserter(steps),
                       [](const run::StepMetrics& step) { return std::isfinite(step.loss); });
  return steps;
}

std::vector<double> losses(const Subject& subject) {
  std::vector<double> values;
  for (const run::StepMetrics& step : known_steps(subject)) values.push_back(step.loss);
  return values;
}

/// Returns the median loss of the `count` steps before `end`.
double median_before(std::span<const double> loss, std::size_t end, std::size_t count = kWindow) {
  count = std::min(count, end);
  const auto window = loss.subspan(end - count, count);
  return median({window.begin(), window.end()});
}

double last_loss(const Subject& subject) {
  const std::vector<double> loss = losses(subject);
  return loss.empty() ? Subject::kUnknown : median_before(loss, loss.size());
}

std::size_t steps_made(const Subject& subject) {
  return subject.metrics.steps.size();
}

/// The step whose loss rises most above the median of the steps before it, and that rise.
struct Rise {
  std::size_t step = 0;
  double before = 0;
  double by = 0;
  double spread = 0;  ///< the losses' median distance from their median
};
Rise largest_rise(const Subject& subject) {
  constexpr std::size_t kBefore = 50;
  const std::vector<run::StepMetrics> steps = known_steps(subject);
  const std::vector<double> loss = losses(subject);
  Rise largest;
  for (std::size_t i = kBefore; i < loss.size(); ++i) {
    const double before = median_before(loss, i, kBefore);
    const double rise = loss[i] - before;
    if (!(rise > largest.by)) continue;
    std::vector<double> distances(loss.begin() + static_cast<std::ptrdiff_t>(i - kBefore),
                                  loss.begin() + static_cast<std::ptrdiff_t>(i));
    for (double& value : distances) value = std::abs(value - before);
    largest = {steps[i].step, before, rise, median(std::move(distances))};
  }
  return largest;
}

/// Returns the lowest median of kWindow steps, the best loss that the run reached.
double best_loss(std::span<const double> loss) {
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t end = kWindow; end <= loss.size(); ++end) {
    best = std::min(best, median_before(loss, end));
  }
  return best;
}

bool is_plain_post(const Placement& placement) {
  constexpr Depth kDeep{12, 12};
  return placement.after == Slot::kNorm && constant_factor(placement.skip, kDeep) == 1 &&
         constant_factor(placement.gain, kDeep) == 1;
}

bool is_post_norm(const Subject& subject) {
  const Placements placements = placements_of(subject.profile.model);
  return placements && std::ranges::any_of(*placements, [](const BlockPlacement& block) {
           return is_plain_post(block.attention) || is_plain_post(block.feed_forward);
         });
}

bool has_norms(const Subject& subject) {
  const Placements placements = placements_of(subject.profile.model);
  return !placements || std::ranges::all_of(*placements, [](const BlockPlacement& block) {
    return block.attention.has_norm() && block.feed_forward.has_norm();
  });
}

/// Returns remedies for a run that diverges: norms if there are none, a longer warm-up for a
/// post-norm stack, a quarter of the learning rate.
std::vector<Remedy> calmer(const Subject& subject) {
  if (!has_norms(subject)) return change_settings(subject, {place_pre, quarter_learning_rate});
  if (is_post_norm(subject)) {
    return change_settings(subject, {warm_up_longer, quarter_learning_rate, place_pre});
  }
  return change_settings(subject, {quarter_learning_rate, warm_up_longer});
}

}  // namespace

void find_stopped_training(const Subject& subject, Findings& findings) {
  if (subject.metrics.stopped.empty()) return;
  const std::size_t steps = steps_made(subject);
  Finding finding{
      .rule = "training-stopped",
      .where = fmt::format("step {}", steps),
      .what = subject.metrics.stopped,
      .because = "every loss and every gradient is finite",
      .fix = "use a lower learning rate or a longer warm-up; add a norm to sublayers without one",
      .measured = static_cast<double>(steps),
      .remedies = calmer(subject)};
  finding.measure.name = "loss";
  finding.measure.of = [](const Subject& s) {
    return s.metrics.stopped.empty() ? last_loss(s) : std::numeric_limits<double>::infinity();
  };
  finding.measure.is_sound = [](double loss) { return std::isfinite(loss); };
  findings.push_back(std::move(finding));
}

void find_loss_spikes(const Subject& subject, Findings& findings) {
  constexpr double kMost = 0.2;
  constexpr double kMostSpreads = 12;  // about 8 standard deviations; small batches vary more
  const Rise rise = largest_rise(subject);
  if (!(rise.by > kMost * rise.before) || !(rise.by > kMostSpreads * rise.spread)) return;
  Finding finding{.rule = "loss-spikes",
                  .severity = Severity::kSuspicious,
                  .where = fmt::format("step {}", rise.step),
                  .what = fmt::format("the loss is {:.2f}; in the 50 steps before it was {:.2f}",
                                      rise.before + rise.by, rise.before),
                  .because = fmt::format(
                      "at most {:.0f} % more, or {:.0f} times the spread between batches: {:.2g}",
                      100 * kMost, kMostSpreads, rise.spread),
                  .fix = "use a lower learning rate or a longer warm-up; clip gradients at 1",
                  .measured = rise.by / rise.before,
                  .expected = kMost,
                  .remedies = calmer(subject)};
  finding.measure.name = "largest rise of the loss, as a share";
  finding.measure.of = [](const Subject& s) {
    const Rise largest = largest_rise(s);
    return largest.before > 0 ? largest.by / largest.before : 0;
  };
  finding.measure.is_sound = [](double share) { return share <= kMost; };
  findings.push_back(std::move(finding));
}

void find_rising_loss(const Subject& subject, Findings& findings) {
  constexpr double kMost = 1.1;
  const std::vector<double> loss = losses(subject);
  if (loss.size() < 5 * kWindow) return;
  const double last = median_before(loss, loss.size());
  const double best = best_loss(loss);
  if (!(last > kMost * best)) return;
  Finding finding{
      .rule = "loss-rises",
      .severity = Severity::kSuspicious,
      .where = "training",
      .what = fmt::format("the training loss was {:.2f}, and is {:.2f} now", best, last),
      .because = "a loss that falls, or stays; both are medians of 20 steps",
      .fix = "use a lower learning rate or a longer warm-up",
      .measured = last / best,
      .expected = 1,
      .remedies = calmer(subject)};
  finding.measure.name = "last loss over the best";
  finding.measure.of = [](const Subject& s) { return last_loss(s) / best_loss(losses(s)); };
  finding.measure.is_sound = [](double ratio) { return ratio <= kMost; };
  findings.push_back(std::move(finding));
}

namespace {

constexpr double kStalled = 0.97;  // share of a loss; a run above it has not learned

/// Says what a run has learned if its loss is not below that of byte frequencies.
std::string learned_text(double loss) {
  const double guessing = std::log(256.0);
  if (loss > 1.02 * guessing) return "worse than guessing";
  if (loss > kStalled * guessing) return "it has learned nothing";
  return "it has learned byte frequencies, but nothing about their order";
}

/// Returns remedies for a run that does not learn: another learning rate.
std::vector<Remedy> livelier(const Subject& subject, double loss) {
  if (!has_norms(subject) || is_post_norm(subject)) return calmer(subject);
  const bool has_not_moved = loss > kStalled * std::log(256.0) && loss < 1.02 * std::log(256.0);
  if (has_not_moved) return change_settings(subject, {usual_learning_rate});
  return change_settings(subject, {quarter_learning_rate, usual_learning_rate});
}

}  // namespace

void find_stalled_training(const Subject& subject, Findings& findings) {
  constexpr std::size_t kSteps = 200;
  constexpr std::size_t kLost = 50;  // steps after which a run worse than guessing does not recover
  if (!subject.config || std::isnan(subject.unigram_loss)) return;
  const double loss = last_loss(subject);
  const double limit = kStalled * subject.unigram_loss;
  const bool is_lost = steps_made(subject) >= kLost && loss > 1.02 * std::log(256.0);
  const bool is_long = steps_made(subject) >= subject.config->warm_up + kSteps;
  if (!(is_lost || is_long) || !(loss > limit)) return;
  Finding finding{
      .rule = "training-stalls",
      .severity = Severity::kSuspicious,
      .where = "training",
      .what = fmt::format("after {} steps the loss is {:.2f} nats per byte: {}",
                          steps_made(subject), loss, learned_text(loss)),
      .because = fmt::format("below {:.2f}, {:.0f} % of the loss of byte frequencies alone", limit,
                             100 * kStalled),
      .fix = !has_norms(subject) ? "add a norm to every sublayer, or use smaller initial weights"
             : is_post_norm(subject)
                 ? "use a longer warm-up (Xiong et al. 2020) or a lower learning rate"
                 : "use another learning rate: 1e-4 to 1e-2 is usual with AdamW",
      .measured = loss,
      .expected = limit,
      .remedies = livelier(subject, loss)};
  finding.measure.name = "loss";
  finding.measure.of = last_loss;
  finding.measure.is_sound = [limit](double value) { return value <= limit; };
  findings.push_back(std::move(finding));
}

namespace {

/// Returns Σ ln(1 + share²) over all sublayers before training. It is the logarithm of the factor
/// by which branches enlarge the stream before a post-norm stack divides it again. If it is large,
/// small changes of all branches change the output much (Liu et al. 2020, "amplification"), and the
/// gradient shrinks by the same factor.
double dependence_on_branches(const Subject& subject) {
  double sum = 0;
  for (const LayerNumbers& layer : layer_numbers(subject, first_step(subject.profile))) {
    sum += std::log1p(layer.attention * layer.attention) +
           std::log1p(layer.feed_forward * layer.feed_forward);
  }
  return sum;
}

}  // namespace

/// Adam's first steps are as large as the learning rate, whatever the gradient.
void find_missing_warm_up(const Subject& subject, Findings& findings) {
  constexpr double kMost = 0.05;
  if (!subject.config || !is_post_norm(subject) || !is_initial(subject)) return;
  const run::RunConfig& config = *subject.config;
  const double dependence = dependence_on_branches(subject);
  const double pace = config.learning_rate * static_cast<double>(config.layers) * dependence;
  if (last_loss(subject) < 0.9 * subject.unigram_loss) return;  // it trained nevertheless
  if (config.warm_up >= kWarmUpSteps / 5 || !(pace > kMost)) return;
  Finding finding{
      .rule = "warm-up-missing",
      .severity = Severity::kSuspicious,
      .where = "settings",
      .what = fmt::format(
          "{} post-norm layers start at a learning rate of {} after {} of warm-up, and their "
          "branches make up much of the stream: Σ ln(1 + share²) = {:.3g}",
          config.layers, config.learning_rate,
          config.warm_up == 1 ? "1 step" : fmt::format("{} steps", config.warm_up), dependence),
      .because = fmt::format("learning rate × layers × that sum is {:.2g}; below {}, or with a "
                             "warm-up, such stacks train (Xiong et al. 2020; the lab's "
                             "figure warm-up)",
                             pace, kMost),
      .fix =
          "warm up over a few hundred steps, start with smaller branches (init gpt2, DeepNorm), or "
          "place the norm before the sublayer",
      .measured = pace,
      .expected = kMost,
      .remedies = change_settings(subject, {warm_up_longer, place_pre})};
  finding.measure.name = "loss";
  finding.measure.of = last_loss;
  findings.push_back(std::move(finding));
}

}  // namespace addnorm::doctor
