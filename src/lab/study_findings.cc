#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "addnorm/nn/placement.h"
#include "lab/study.h"

namespace addnorm::lab {
namespace {

/// Ratios outside these limits leave a layer no usable signal.
constexpr double kVanished = 1e-2;
constexpr double kExploded = 1e2;

Strength strength_of(double ratio) {
  if (!(ratio >= kVanished)) return Strength::kVanishes;
  return ratio > kExploded ? Strength::kExplodes : Strength::kKeeps;
}

/// Formats a number as "0.31" or "3e-09".
Message number(double value) {
  if (value != 0 && (std::abs(value) < 1e-2 || std::abs(value) >= 1e4)) {
    return Message::number(fmt::format("{:.0e}", value));
  }
  return Message::number(fmt::format("{:.3g}", value));
}

std::vector<double> geometric_means(const std::vector<std::vector<double>>& curves) {
  std::vector<double> result(curves.at(0).size());
  for (std::size_t l = 0; l < result.size(); ++l) {
    double sum = 0;
    for (const auto& curve : curves) sum += std::log(curve[l]);
    result[l] = std::exp(sum / static_cast<double>(curves.size()));
  }
  return result;
}

LayerCurves layer_curves(const std::vector<const StudyRun*>& runs, std::size_t layers) {
  LayerCurves curves;
  for (const StudyRun* run : runs) {
    std::vector<double> stream;
    std::vector<double> gradient;
    for (std::size_t place = 0; place <= layers; ++place) {
      const probe::ProfileEntry& entry = probe::stream_entry(run->initial, place, layers);
      stream.push_back(entry.rms);
      gradient.push_back(entry.grad_rms);
    }
    curves.stream_rms.push_back(stream);
    curves.gradient_rms.push_back(gradient);
  }
  return curves;
}

EndRatios end_ratios(Initialization initialization, const std::vector<const StudyRun*>& runs,
                     std::size_t layers) {
  const LayerCurves curves = layer_curves(runs, layers);
  const std::vector<double> stream = geometric_means(curves.stream_rms);
  const std::vector<double> gradient = geometric_means(curves.gradient_rms);
  // An underflow is 0, and an overflow may be NaN.
  auto ratio = [](double a, double b) {
    if (!std::isfinite(a) || !std::isfinite(b)) return std::numeric_limits<double>::infinity();
    return a == 0 ? 0 : a / b;
  };
  return {initialization, ratio(stream.back(), stream.front()),
          ratio(gradient.front(), gradient[layers - 1])};
}

/// Whether `better` is below `worse` by more than chance and the margin.
bool clearly_below(const Spread& better, const Spread& worse) {
  const double spread = std::hypot(better.deviation, worse.deviation);
  return better.mean < worse.mean - std::max(kLearned, 2 * spread);
}

/// Returns the clause about the stream, which may begin the sentence.
Message signal_clause(const StudyFinding& finding, std::size_t layers, bool begins) {
  const Message ratio = number(finding.ends.stream);
  switch (finding.stream) {
    case Strength::kVanishes:
      return begins ? msg("The stream shrinks to {} of its size", ratio)
                    : msg("the stream shrinks to {} of its size", ratio);
    case Strength::kExplodes:
      if (std::isinf(finding.ends.stream)) {
        return begins ? msg("The stream overflows float32") : msg("the stream overflows float32");
      }
      return begins ? msg("The stream grows {}-fold", ratio)
                    : msg("the stream grows {}-fold", ratio);
    default: {
      const Message first = number(finding.stream_by_layer.front());
      const Message last = number(finding.stream_by_layer.back());
      return begins ? msg("The stream goes from {} to {} over {} layers", first, last, layers)
                    : msg("the stream goes from {} to {} over {} layers", first, last, layers);
    }
  }
}

Message gradient_clause(const StudyFinding& finding, std::size_t layers) {
  if (std::isinf(finding.ends.gradient)) {
    return msg("the gradients of layers 0 and {} have no finite ratio", layers - 1);
  }
  return msg("the gradient of layer 0 is {} times layer {}'s", number(finding.ends.gradient),
             layers - 1);
}

Message loss_text(const Spread& loss) {
  if (!std::isfinite(loss.mean)) return msg("infinite");
  return Message::number(fmt::format("{:.2f}", loss.mean));
}

Message training_clause(const StudyFinding& finding, double unigram_loss) {
  const Message without = loss_text(finding.without_warm_up);
  const Message with = loss_text(finding.with_warm_up);
  switch (finding.training) {
    case Training::kFails:
      return msg(
          "it does not train: the loss is {} without and {} with warm-up, and byte frequencies "
          "alone give {:.2f}",
          without, with, unigram_loss);
    case Training::kNeedsWarmUp:
      return msg("it needs warm-up: the loss is {} without and {} with it", without, with);
    default:
      return msg("it trains without warm-up: the loss is {} without and {} with it", without, with);
  }
}

Message verdict_of(const StudyFinding& finding, const Study& study) {
  const std::size_t layers = study.options.config.layers;
  const Placement last = parse_placements(finding.placement, layers).back().feed_forward;
  const bool cut = last.skip.form == ResidualFactor::Form::kConstant &&
                   last.skip.initial.value({layers, layers}) == 0;
  const bool normed = last.has_norm();
  const Message signal = signal_clause(finding, layers, !cut && normed);
  const Message gradient = gradient_clause(finding, layers);
  const Message training = training_clause(finding, study.unigram_loss);
  const Message sentence =
      cut && !normed
          ? msg("Without a residual and without a norm {} and {}; {}", signal, gradient, training)
      : cut     ? msg("Without a residual {} and {}; {}", signal, gradient, training)
      : !normed ? msg("Without a norm {} and {}; {}", signal, gradient, training)
                : msg("{} and {}; {}", signal, gradient, training);
  if (finding.diverged == 0) return msg("{}.", sentence);
  return msg("{}; {} of {} runs diverged.", sentence, finding.diverged, 2 * study.options.seeds);
}

Training training_of(const StudyFinding& finding, double unigram_loss) {
  auto trains = [&](const Spread& loss) { return loss.mean < unigram_loss - kLearned; };
  if (!trains(finding.without_warm_up) && !trains(finding.with_warm_up)) return Training::kFails;
  const bool needs = !trains(finding.without_warm_up) ||
                     clearly_below(finding.with_warm_up, finding.without_warm_up);
  return needs ? Training::kNeedsWarmUp : Training::kTrains;
}

/// Returns the study restricted to this seed.
Study with_one_seed(const Study& study, std::uint64_t seed) {
  Study one = study;
  one.options.config.seed = seed;
  one.options.seeds = 1;
  const auto is_another = [&](const StudyRun& run) { return run.seed != seed; };
  std::erase_if(one.runs, is_another);
  std::erase_if(one.other_initializations, is_another);
  return one;
}

StudyFinding find(const Study& study, const std::string& placement) {
  StudyFinding finding{.placement = placement};
  std::vector<const StudyRun*> initial;
  std::vector<double> without;
  std::vector<double> with;
  for (const StudyRun& run : study.runs) {
    if (run.placement != placement) continue;
    if (run.warm_up == 0) initial.push_back(&run);
    (run.warm_up == 0 ? without : with).push_back(run.validation_loss);
    finding.diverged += run.diverged() ? 1 : 0;
  }
  const std::size_t layers = study.options.config.layers;
  finding.curves = layer_curves(initial, layers);
  finding.stream_by_layer = geometric_means(finding.curves.stream_rms);
  finding.gradient_by_layer = geometric_means(finding.curves.gradient_rms);
  finding.ends = end_ratios(study.options.initialization(), initial, layers);
  finding.stream = strength_of(finding.ends.stream);
  finding.gradient = strength_of(finding.ends.gradient);
  for (const Initialization other : kInitializations) {
    if (other == study.options.initialization()) continue;
    std::vector<const StudyRun*> runs;
    for (const StudyRun& run : study.other_initializations) {
      if (run.placement == placement && run.initialization == other) runs.push_back(&run);
    }
    finding.other_ends.push_back(end_ratios(other, runs, layers));
  }
  finding.without_warm_up = spread_of(without);
  finding.with_warm_up = spread_of(with);
  finding.training = training_of(finding, study.unigram_loss);
  finding.verdict = verdict_of(finding, study);
  const StudyOptions& o = study.options;
  for (std::uint64_t s = 0; o.seeds > 1 && s < o.seeds; ++s) {
    finding.by_seed.push_back(find(with_one_seed(study, o.config.seed + s), placement));
  }
  return finding;
}

}  // namespace

bool StudyFinding::agrees_with(const StudyFinding& other) const {
  return stream == other.stream && gradient == other.gradient && training == other.training;
}

std::size_t StudyFinding::agreeing_seeds() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(by_seed, [&](const StudyFinding& f) { return f.agrees_with(*this); }));
}

bool EndRatios::sound() const {
  return strength_of(stream) == Strength::kKeeps && strength_of(gradient) == Strength::kKeeps;
}

Spread spread_of(const std::vector<double>& values) {
  Spread spread;
  const auto n = static_cast<double>(values.size());
  for (const double v : values) spread.mean += v / n;
  if (values.size() < 2 || !std::isfinite(spread.mean)) return spread;
  for (const double v : values) {
    spread.deviation += (v - spread.mean) * (v - spread.mean) / (n - 1);
  }
  spread.deviation = std::sqrt(spread.deviation);
  return spread;
}

std::vector<StudyFinding> study_findings(const Study& study) {
  std::vector<StudyFinding> findings;
  for (const std::string& placement : study.options.placements) {
    findings.push_back(find(study, placement));
  }
  return findings;
}

namespace {

Message ends_clause(const EndRatios& ends) {
  if (std::isinf(ends.stream) || std::isinf(ends.gradient)) {
    return msg("the stream or the gradient overflows float32");
  }
  return msg("the stream changes by a factor of {} and the gradient by {}", number(ends.stream),
             number(ends.gradient));
}

StudyClaim signal_claim(const StudyFinding& finding, const Message& claim) {
  std::vector<EndRatios> all = finding.other_ends;
  all.insert(all.begin(), finding.ends);
  Message evidence;
  std::size_t lost = 0;
  for (const EndRatios& ends : all) {
    lost += ends.sound() ? 0 : 1;
    const std::string_view name = to_string(ends.initialization);
    const Message clause = ends_clause(ends);
    evidence = evidence.empty() ? msg("With {} weights {}", name, clause)
                                : msg("{}; with {} weights {}", evidence, name, clause);
  }
  return {.claim = claim,
          .source = "Glorot and Bengio 2010; He et al. 2016",
          .holds = lost == all.size() ? Holds::kYes
                   : lost > 0         ? Holds::kPartly
                                      : Holds::kNo,
          .evidence = evidence};
}

Message with_spread(const Spread& loss) {
  if (!std::isfinite(loss.mean)) return msg("infinite");
  if (loss.deviation == 0) return msg("{:.3f} (one seed)", loss.mean);
  return msg("{:.3f} ± {:.3f}", loss.mean, loss.deviation);
}

StudyClaim warm_up_claim(const StudyFinding& finding, Training expected, const char* claim) {
  return {.claim = claim,
          .source = "Xiong et al. 2020",
          .holds = finding.training == expected ? Holds::kYes : Holds::kNo,
          .evidence = msg("Loss {} without warm-up, {} with it",
                          with_spread(finding.without_warm_up), with_spread(finding.with_warm_up))};
}

/// Returns the literature's claim about the placement, if there is one.
std::optional<StudyClaim> claim_about(const StudyFinding& finding) {
  if (finding.placement == "plain") {
    return signal_claim(finding, msg("In a deep stack without residual and norm, the signal or the "
                                     "gradient vanishes or explodes ({})",
                                     finding.placement));
  }
  if (finding.placement == "none") {
    return signal_claim(finding, msg("In a deep stack without a norm, the signal or the gradient "
                                     "vanishes or explodes ({})",
                                     finding.placement));
  }
  if (finding.placement == "post") {
    return warm_up_claim(finding, Training::kNeedsWarmUp, msg("Post-norm needs warm-up"));
  }
  if (finding.placement == "pre") {
    return warm_up_claim(finding, Training::kTrains, msg("Pre-norm trains without warm-up"));
  }
  return std::nullopt;
}

}  // namespace

std::vector<StudyClaim> study_claims(const std::vector<StudyFinding>& findings) {
  std::vector<StudyClaim> claims;
  for (const StudyFinding& finding : findings) {
    std::optional<StudyClaim> claim = claim_about(finding);
    if (!claim) continue;
    for (const StudyFinding& seed : finding.by_seed) {
      if (claim_about(seed)->holds == claim->holds) ++claim->agreeing_seeds;
    }
    if (!finding.by_seed.empty()) {
      claim->evidence = msg("{}; the same on {} of {} seeds", claim->evidence,
                            claim->agreeing_seeds, finding.by_seed.size());
    }
    claims.push_back(*std::move(claim));
  }
  return claims;
}

}  // namespace addnorm::lab
