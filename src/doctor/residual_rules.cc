#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "doctor/placements.h"
#include "doctor/places.h"
#include "doctor/rules.h"
#include "model/family_facts.h"

namespace addnorm::doctor {
namespace {

using probe::SumFit;

/// Tolerance of a fitted factor: absolute for expected values up to 1, relative above. In bfloat16
/// the fit has an error of 0.01 (docs/doctor.md).
constexpr double kTolerance = 0.05;

/// Returns false for an unknown number.
bool is_near(std::optional<double> value, double expected) {
  return value && std::abs(*value - expected) <= kTolerance * std::max(1.0, std::abs(expected));
}

/// Returns the fitted sum, such as "s = 1.00·x + 0.50·f", without factors below 0.005.
std::string formula(const SumFit& fit) {
  std::string text = "s =";
  const auto add = [&](double factor, const char* what) {
    if (std::abs(factor) < 0.005) return;
    const char* sign = text == "s =" ? (factor < 0 ? " −" : " ") : (factor < 0 ? " − " : " + ");
    text += fmt::format("{}{:.2f}·{}", sign, std::abs(factor), what);
  };
  add(fit.from_x.value_or(0), "x");
  add(fit.from_earlier.value_or(0), "x′");
  add(fit.from_before.value_or(0), "h");
  add(fit.from_branch.value_or(0), "f");
  return text;
}

/// The least number of sums with a known stream factor for scales_every_residual(). usual_skip()
/// needs one more.
constexpr std::size_t kLeastSums = 3;

/// Whether the stream's factor is unknown in at least three quarters of the sums. If a norm reads
/// another norm's output, x and h are almost proportional, so the fit cannot separate their
/// factors.
bool hides_most_streams(const Subject& subject, std::size_t known) {
  std::size_t sums = 0;
  for_sums(subject, [&](const ProfileEntry&, const SumFit&) { ++sums; });
  return 4 * known <= sums;
}

/// Whether no known factor of the stream is near 0 or 1. At least kLeastSums must be known, unless
/// hides_most_streams(). Such factors are a design, for example weights that depend on depth.
bool scales_every_residual(const Subject& subject) {
  std::size_t sums = 0;
  bool all = true;
  for_sums(subject, [&](const ProfileEntry&, const SumFit& fit) {
    if (!fit.from_x) return;
    ++sums;
    all &= !is_near(fit.from_x, 0) && !is_near(fit.from_x, 1);
  });
  return all && (sums >= kLeastSums || hides_most_streams(subject, sums));
}

using Factors = std::vector<std::optional<double>>;

/// Returns a factor that `least` or more of `all` share within the tolerance, or 1 if there is
/// none.
double common_factor(const Factors& all, std::size_t least) {
  for (const std::optional<double>& factor : all) {
    if (!factor) continue;
    const auto alike =
        std::ranges::count_if(all, [&](const auto& other) { return is_near(other, *factor); });
    if (static_cast<std::size_t>(alike) >= least) return *factor;
  }
  return 1;
}

/// Returns the stream's factor, such as DeepNorm's α, on which at least three quarters of the sums
/// agree. Sums whose factor is unknown or near 0 do not count. Returns 1 if there is no such
/// factor, or if fewer than four sums count.
double usual_skip(const Subject& subject) {
  Factors factors;
  for_sums(subject, [&](const ProfileEntry&, const SumFit& fit) {
    if (fit.from_x && !is_near(fit.from_x, 0)) factors.push_back(fit.from_x);
  });
  return factors.size() > kLeastSums ? common_factor(factors, (3 * factors.size() + 3) / 4) : 1;
}

/// Returns "0.5·f", or "f" if the factor is 1.
std::string term(double factor, const char* what) {
  return factor == 1 ? what : fmt::format("{:.3g}·{}", factor, what);
}

/// The factors of a sum according to its placement.
struct PlacedFactors {
  double skip, gain;
};

/// Reports a factor of the stream that is not the placement's. `usual` is the factor of most sums.
void report_skip(const Subject& subject, const Site& site, const SumFit& fit,
                 const PlacedFactors& placed, double usual, Findings& findings) {
  const double skip = placed.skip;
  const double factor = *fit.from_x;
  Finding finding{.severity = Severity::kBroken,
                  .site = site,
                  .because = fmt::format("s = {:.3g}·x + {}{}", skip, term(placed.gain, "f"),
                                         by_placement(subject)),
                  .measured = factor,
                  .expected = skip};
  if (is_near(fit.from_earlier, skip)) {
    finding.rule = "sublayer-input";
    finding.what =
        fmt::format("x′, the previous sublayer's input, is added instead of x: {}", formula(fit));
    finding.fix = "add this sublayer's own input x; look for a variable that was not updated";
  } else if (is_near(factor, 0) && is_near(fit.from_before, skip)) {
    if (model::family_facts(subject.profile.model.model_type).has_normalized_stream) return;
    finding.rule = "norm-over-stream";
    finding.what =
        fmt::format("the norm's output is added back in place of the stream: {}", formula(fit));
    finding.fix = "keep x before the norm and add that: y = x + F(norm(x)), not h + F(h)";
  } else if (is_near(factor, 0)) {
    finding.rule = "residual-missing";
    finding.what = fmt::format("the stream is not added to the branch: {}", formula(fit));
    finding.fix = "add the sublayer's input to its output";
  } else if (is_near(factor, 2 * skip)) {
    finding.rule = "residual-twice";
    finding.what = fmt::format("the stream is added twice: {}", formula(fit));
    finding.fix = "add it once: in the sublayer or around it, not in both";
  } else {
    finding.rule = "residual-factor";
    const bool is_design = is_near(factor, usual) || scales_every_residual(subject);
    if (skip == 1 && is_design) finding.severity = Severity::kNote;
    finding.what =
        fmt::format("the stream's factor in the sum is {:.3g}: {}", factor, formula(fit));
    finding.fix = "check the factor of the residual and the code between x and the sum";
  }
  findings.push_back(std::move(finding));
}

/// Whether this is the network's first sum and has no norm after it, while other sums have one. The
/// published Keel model does not scale the stream in this sum, unlike the placement `keel`.
bool begins_before_norms(const Subject& subject, Site site) {
  const auto is_after = [](const ProfileEntry& e) { return e.site.point == Point::kAfter; };
  const bool is_first = site.layer == 0 && site.sublayer == SublayerKind::kAttention;
  site.point = Point::kAfter;
  return is_first && std::ranges::any_of(last_entries(subject.profile), is_after) &&
         last_entry(subject, site) == nullptr;
}

void report_missing_factor(const Site& site, const SumFit& fit, double usual, Findings& findings) {
  findings.push_back({.rule = "residual-factor",
                      .site = site,
                      .what = fmt::format("the stream's factor in the sum is 1: {}", formula(fit)),
                      .because = fmt::format("s = {:.3g}·x + f, as in most sublayers", usual),
                      .fix = "multiply the residual by the same factor as the others",
                      .measured = *fit.from_x,
                      .expected = usual});
}

/// Marks the layers whose attention and feed-forward have the same input (GPT-NeoX). Both branches
/// enter one sum.
std::vector<bool> parallel_layers(const Subject& subject) {
  std::vector<bool> parallel(subject.profile.model.n_layers);
  for (std::size_t l = 0; l < parallel.size(); ++l) {
    const ProfileEntry* one = last_entry(subject, {l, SublayerKind::kAttention, Point::kX});
    const ProfileEntry* other = last_entry(subject, {l, SublayerKind::kFeedForward, Point::kX});
    parallel[l] = one != nullptr && other != nullptr && one->rms == other->rms &&
                  one->mean == other->mean && one->abs_max == other->abs_max;
  }
  return parallel;
}

bool is_in(const std::vector<bool>& layers, const Site& site) {
  return site.layer < layers.size() && layers[site.layer];
}

/// Returns the index of a layer within its module. One module can be several layers of the profile:
/// a Conformer block is three.
std::size_t place_in_module(const Subject& subject, std::size_t layer) {
  const std::vector<std::string>& modules = subject.profile.model.layer_modules;
  std::size_t place = 0;
  while (place < layer && layer < modules.size() && modules[layer - place - 1] == modules[layer])
    ++place;
  return place;
}

/// Returns the factor that most branches of this kind share at this place in their modules. If this
/// place has only one branch, the branches of all places count. The factor may differ from 1 by
/// design: a residual multiplier, or the ½ of a Conformer's feed-forwards. Returns 1 if there is
/// none, or if it is not positive.
double usual_gain(const Subject& subject, const Site& site) {
  const std::size_t place = place_in_module(subject, site.layer);
  Factors here, of_kind;
  for_sums(subject, [&](const ProfileEntry& sum, const SumFit& fit) {
    if (sum.site.sublayer != site.sublayer) return;
    of_kind.push_back(fit.from_branch);
    if (place_in_module(subject, sum.site.layer) == place) here.push_back(fit.from_branch);
  });
  const Factors& factors = here.size() > 1 ? here : of_kind;
  const double usual = factors.size() > 1 ? common_factor(factors, factors.size() / 2 + 1) : 1;
  return usual > 0 ? usual : 1;
}

/// A part of a sum: its factors in the forward and backward pass, and the finding if the backward
/// factor is 0.
struct Part {
  const char* symbol;
  std::optional<double> forward, backward;
  const char* rule;
  const char* if_cut;
};

}  // namespace

void find_wrong_inputs(const Subject& subject, Findings& findings) {
  for_norms(subject, [&](const ProfileEntry& norm, const probe::NormFit& fit) {
    const double maps = fit.past_norm.value_or(0);
    if (!(maps > 0)) return;
    Site site = norm.site;
    site.norm = NormSlot::kNone;
    findings.push_back(
        {.rule = "sublayer-input",
         .severity = Severity::kSuspicious,
         .site = site,
         .where = place_text(site),
         .what = fmt::format("{:.0f} of its linear maps {} the stream, not the norm's output", maps,
                             maps == 1 ? "reads" : "read"),
         .because = "queries, keys and values are all projected from the norm's output",
         .fix = "give the norm's output to all of them: attention(h, h, h)",
         .measured = maps,
         .expected = 0});
  });
}

/// Relative tolerance of a fitted gradient factor. The fit is less exact where a norm reads rows of
/// few features.
constexpr double kGradientTolerance = 0.1;

void find_detached_parts(const Subject& subject, Findings& findings) {
  for_sums(subject, [&](const ProfileEntry& sum, const SumFit& fit) {
    if (sum.lane && sum.lane->lanes_detached.value_or(0) > 0) {
      const double detached = *sum.lane->lanes_detached;
      findings.push_back(
          {.rule = "residual-detached",
           .site = sum.site,
           .what = fmt::format(
               "no gradient flows back from the sum to {:.0f} of the lanes that it reads",
               detached),
           .because = "X′ = A·X + b ⊗ f, so ∂X contains Aᵀ·∂X′",
           .fix = "look for detach(), .data or no_grad() between the lanes and the sum",
           .measured = detached,
           .expected = 0});
    }
    const std::optional<double> from_branch = sum.lane ? sum.lane->write : fit.from_branch;
    const Part parts[] = {
        {"x", fit.from_x, fit.grad_to_x, "residual-detached",
         "no gradient passes along the residual: earlier layers learn only through this branch"},
        {"f", from_branch, fit.grad_to_branch, "branch-detached",
         "no gradient reaches the branch: its weights do not learn"}};
    for (const auto& [symbol, has, gets, rule, if_cut] : parts) {
      if (!has || !gets || is_near(gets, *has)) continue;
      const double forward = *has, backward = *gets;
      const bool is_cut = std::abs(backward) < kTolerance;
      if (!is_cut && std::abs(backward - forward) < kGradientTolerance * std::abs(forward))
        continue;
      const std::string passed = fmt::format("∂{} contains {:.3g}·∂s", symbol, backward);
      findings.push_back(
          {.rule = is_cut ? rule : "gradient-factor",
           .severity = is_cut ? Severity::kBroken : Severity::kSuspicious,
           .site = sum.site,
           .what = is_cut ? if_cut : passed,
           .because =
               fmt::format("s contains {0:.3g}·{1}, so ∂{1} contains {0:.3g}·∂s", forward, symbol),
           .fix =
               fmt::format("look for detach(), .data or no_grad() between {} and the sum", symbol),
           .measured = backward,
           .expected = forward});
    }
  });
}

/// If the factor of the norm's output h is above this, h counts as a residual inside the sublayer.
constexpr double kLeastInner = 0.25;

namespace {

Finding residual_twice(const Subject& subject, const Site& site, const SumFit& fit,
                       const PlacedFactors& placed) {
  return {
      .rule = "residual-twice",
      .severity = Severity::kBroken,
      .site = site,
      .what = fmt::format("the norm's output h is added as well as the stream: {}", formula(fit)),
      .because = fmt::format("s = {:.3g}·x + {}{}", placed.skip, term(placed.gain, "f"),
                             by_placement(subject)),
      .fix = "remove the residual inside the sublayer: the sum around it adds the stream",
      .measured = *fit.from_before,
      .expected = 0};
}

/// Judges a branch's factor. The usual factor is usual_gain() if the placement's `gain` is 1, else
/// `gain`. Reports any other factor as broken, and the usual factor as a note if it is not `gain`.
void report_branch_factor(const Subject& subject, const Site& site, const SumFit& fit,
                          const PlacedFactors& placed, Findings& findings) {
  const double gain = placed.gain;
  const double usual = gain == 1 ? usual_gain(subject, site) : gain;
  const bool is_design = is_near(fit.from_branch, usual);
  if (is_design && is_near(usual, gain)) return;
  findings.push_back(
      {.rule = "branch-factor",
       .severity = is_design ? Severity::kNote : Severity::kBroken,
       .site = site,
       .what = fmt::format("the branch's factor in the sum is {:.3g}: {}", *fit.from_branch,
                           formula(fit)),
       .because = is_design || usual == gain
                      ? fmt::format("s = {} + {:.3g}·f{}", term(placed.skip, "x"), gain,
                                    by_placement(subject))
                      : fmt::format("s = x + {:.3g}·f, as in most sublayers of its kind", usual),
       .fix =
           "look for a factor or a second addition between the branch and the sum; if the gain is "
           "learned, pass recipe={\"placement\": \"layerscale\"}",
       .measured = *fit.from_branch,
       .expected = is_design ? gain : usual});
}

}  // namespace

void find_wrong_sums(const Subject& subject, Findings& findings) {
  const double common_skip = usual_skip(subject);
  const Placements placements = placements_of(subject.profile.model);
  for_sums(subject, [&](const ProfileEntry& sum, const SumFit& fit) {
    if (is_unexplained(fit)) return;
    const Placement* placement = placement_at(placements, sum.site);
    const Depth depth{sum.site.layer + 1, subject.profile.model.n_layers};
    const std::optional<double> skip = placement ? constant_factor(placement->skip, depth) : 1.0;
    const std::optional<double> gain = placement ? constant_factor(placement->gain, depth) : 1.0;
    const double usual_x = skip == 1 ? common_skip : 1;
    const PlacedFactors placed{skip.value_or(1), gain.value_or(1)};
    if (skip && fit.from_x && !is_near(fit.from_x, *skip)) {
      report_skip(subject, sum.site, fit, placed, usual_x, findings);
    } else if (is_near(fit.from_x, 1) && !is_near(usual_x, 1) && !is_near(usual_x, 2) &&
               !begins_before_norms(subject, sum.site)) {
      report_missing_factor(sum.site, fit, usual_x, findings);
    } else if (skip && fit.from_before.value_or(0) > kLeastInner) {
      findings.push_back(residual_twice(subject, sum.site, fit, placed));
    } else if (gain && fit.from_branch) {
      report_branch_factor(subject, sum.site, fit, placed, findings);
    }
  });
}

namespace {

/// If most sums do not fit the model, adds one finding about the network and returns true. The
/// caller then does not report individual sums.
bool is_not_understood(const Subject& subject, Findings& findings) {
  std::size_t sums = 0, unexplained = 0;
  double most = 0;
  for_sums(subject, [&](const ProfileEntry& sum, const SumFit& fit) {
    if (sum.lane) return;
    ++sums;
    if (!is_unexplained(fit)) return;
    ++unexplained;
    most = std::max(most, *fit.unexplained);
  });
  if (sums < 2 || 2 * unexplained <= sums) return false;
  findings.push_back(
      {.rule = "not-understood",
       .severity = Severity::kNote,
       .where = "residual stream",
       .what = fmt::format("{} of {} sums are not skip·x + gain·f: up to {:.0f} % of a sum is "
                           "neither stream nor branch",
                           unexplained, sums, 100 * most),
       .because = "the doctor models each sum as skip·x + gain·f of one stream; it does not judge "
                  "other sums",
       .fix = "name the modules for the probe: layers=, attention=, feed_forward=",
       .measured = static_cast<double>(unexplained) / static_cast<double>(sums)});
  return true;
}

}  // namespace

void find_unexplained_sums(const Subject& subject, Findings& findings) {
  using Form = ResidualFactor::Form;
  if (is_not_understood(subject, findings)) return;
  const std::vector<bool> parallel = parallel_layers(subject);
  const Placements placements = placements_of(subject.profile.model);
  for_sums(subject, [&](const ProfileEntry& sum, const SumFit& fit) {
    const Placement* placement = placement_at(placements, sum.site);
    const auto is_vector = [](const ResidualFactor& factor) {
      return factor.form == Form::kLearnedVector || factor.form == Form::kLearnedMagnitudes;
    };
    const bool is_learned =
        placement != nullptr && (is_vector(placement->skip) || is_vector(placement->gain));
    if (!is_unexplained(fit) || is_learned || sum.lane || is_in(parallel, sum.site)) return;
    findings.push_back(
        {.rule = "sum-unexplained",
         .severity = Severity::kSuspicious,
         .site = sum.site,
         .what = fmt::format("{:.0f} % of the sum is neither stream nor branch",
                             100 * *fit.unexplained),
         .because = "a residual sum is skip·x + gain·f; rounding to bfloat16 accounts for only 0.2 "
                    "% of it",
         .fix = "look for what else is added, or changed, between the branch and the next norm",
         .measured = *fit.unexplained,
         .expected = 0});
  });
}

}  // namespace addnorm::doctor
