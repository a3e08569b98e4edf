#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "doctor/placements.h"
#include "doctor/places.h"
#include "doctor/rules.h"

namespace addnorm::doctor {
namespace {

std::string step_words(const io::Profile& profile, std::size_t step) {
  return first_step(profile) == last_step(profile) ? "" : fmt::format(" at step {}", step);
}

}  // namespace

/// Reports only the first place that is not finite, because it makes all later ones infinite or
/// NaN. Values are followed forward, gradients backward; `finite` covers both.
void find_not_finite(const Subject& subject, Findings& findings) {
  const ProfileEntry* value = nullptr;
  const ProfileEntry* gradient = nullptr;
  for (const ProfileEntry& entry : subject.profile.entries) {
    if (!std::isinf(entry.abs_max)) continue;
    const bool is_of_values = !std::isfinite(entry.rms);
    if (is_of_values && value == nullptr) value = &entry;
    if (!is_of_values && (gradient == nullptr || gradient->step == entry.step)) gradient = &entry;
  }
  const ProfileEntry* first = value;
  if (first == nullptr || (gradient != nullptr && gradient->step < first->step)) first = gradient;
  if (first == nullptr) return;
  findings.push_back({.rule = "not-finite",
                      .site = first->site,
                      .where = io::site_text(first->site),
                      .what = fmt::format("a {} is infinite or NaN{}, here first",
                                          first == value ? "value" : "gradient",
                                          step_words(subject.profile, first->step)),
                      .because = "every value of a network is finite",
                      .fix = "look for an overflow in 16 bits, a row of equal values with ε = 0, "
                             "or a mask that hides all keys"});
}

void find_growing_scores(const Subject& subject, Findings& findings) {
  // If logits reach about 50 and each query attends to one key, softmax passes no gradient (Zhai et
  // al. 2023; Dehghani et al. 2023, section 2.2).
  constexpr double kSaturated = 50;
  constexpr double kGrowth = 3;
  const io::Profile& profile = subject.profile;
  for_point(subject, Point::kScores, [&](const ProfileEntry& last) {
    if (!last.entropy || *last.entropy >= 0.1 || !(last.abs_max > kSaturated)) return;
    const ProfileEntry* first = find_entry(profile, first_step(profile), last.site);
    if (first == nullptr || first == &last) {
      findings.push_back(
          {.rule = "attention-saturated",
           .severity = Severity::kNote,
           .site = last.site,
           .what = fmt::format("logits reach {:.0f}, and each query attends to a single key: its "
                               "entropy is {:.2f} of the largest possible",
                               last.abs_max, *last.entropy),
           .because = "a sharp head may be useful; if its logits keep growing, training stops",
           .fix = "profile several steps, and see whether the logits grow",
           .measured = last.abs_max,
           .expected = kSaturated});
      return;
    }
    const double growth = last.rms / first->rms;
    if (!(growth > kGrowth)) return;
    findings.push_back(
        {.rule = "attention-logits-grow",
         .severity = Severity::kSuspicious,
         .site = last.site,
         .what = fmt::format(
             "the logits' RMS has grown {:.4g} times from step {} to step {}, the largest is "
             "{:.0f}, and each query attends to a single key: entropy {:.2f}",
             growth, first->step, last.step, last.abs_max, *last.entropy),
         .because = fmt::format(
             "logits that settle below {:.0f}, or queries that attend to several keys", kSaturated),
         .fix = "normalize queries and keys (QK-norm), cap the logits, or lower the learning rate",
         .measured = last.abs_max,
         .expected = kSaturated});
  });
}

namespace {

/// Whether the branch's projection into the stream starts at 0, as in many recipes, and can learn.
/// If the head starts at 0 too, no gradient reaches the branch, so the gradient cannot show this.
bool starts_at_zero(const Subject& subject, const Site& branch) {
  const Projection last =
      branch.sublayer == SublayerKind::kAttention ? Projection::kOutput : Projection::kDown;
  const ProfileEntry* weight =
      last_entry(subject, {branch.layer, branch.sublayer, Point::kWeight, NormSlot::kNone, last});
  const bool has_gains = std::ranges::any_of(subject.profile.entries, [](const auto& entry) {
    return entry.site.point == Point::kGamma;  // γ shows whether a network is trained
  });
  const ProfileEntry* sum = last_entry(subject, {branch.layer, branch.sublayer, Point::kSum});
  const ProfileEntry* output = last_entry(subject, branch);
  const bool has_young_norm = output != nullptr && output->gain_at_zero.value_or(0) > 0;
  const bool can_learn =
      weight != nullptr && (weight->grad_rms > 0 || (sum != nullptr && sum->grad_rms == 0));
  const bool has_young_weight = can_learn && weight->rms == 0;
  return (has_young_norm || has_young_weight) && (is_initial(subject) || !has_gains);
}

}  // namespace

/// Excludes branches that start at 0 by their recipe (ReZero, LayerScale, a projection of zeros),
/// and sublayers without a residual.
void find_idle_sublayers(const Subject& subject, Findings& findings) {
  constexpr double kIdle = 1e-7;
  const auto placements = placements_of(subject.profile.model);
  for_point(subject, Point::kSum, [&](const ProfileEntry& sum) {
    const Placement* placement = placement_at(placements, sum.site);
    if (placement != nullptr) {
      const Depth depth{sum.site.layer + 1, placements->size()};
      if (constant_factor(placement->skip, depth) == 0 || !constant_factor(placement->gain, depth))
        return;
    }
    const auto at = [&](Point point) {
      return last_entry(subject, {sum.site.layer, sum.site.sublayer, point});
    };
    const ProfileEntry* branch = at(Point::kBranch);
    const ProfileEntry* inside = at(Point::kInside);  // a norm there makes a small branch large
    const ProfileEntry* x = at(Point::kX);
    const bool is_known = branch != nullptr && x != nullptr && x->rms > 0;
    if (!is_known || !(branch->rms <= kIdle * x->rms)) return;
    if (inside != nullptr && !(inside->rms <= kIdle * x->rms)) return;
    if (starts_at_zero(subject, branch->site)) return;
    const bool is_reported = !findings.empty() && findings.back().rule == "idle-sublayer" &&
                             findings.back().site == branch->site;
    if (is_reported) return;  // already reported for another lane
    findings.push_back(
        {.rule = "idle-sublayer",
         .severity = Severity::kSuspicious,
         .site = branch->site,
         .what = fmt::format("its branch is {:.1e} times the stream: it changes nothing",
                             branch->rms / x->rms),
         .because = fmt::format("at least {:.0e}, the least that float32 can add", kIdle),
         .fix = "look for weights that are 0, were not read, or are masked away",
         .measured = branch->rms / x->rms,
         .expected = kIdle});
  });
}

/// Sun et al. 2024 ("Massive activations in large language models"): above 100, and 1000 times the
/// median.
void note_massive_activations(const Subject& subject, Findings& findings) {
  const ProfileEntry* worst = nullptr;
  for_point(subject, Point::kSum, [&](const ProfileEntry& sum) {
    const bool massive =
        std::isfinite(sum.abs_max) && sum.abs_max > 100 && sum.abs_max > 1000 * sum.abs_median;
    if (massive && (worst == nullptr || sum.abs_max > worst->abs_max)) worst = &sum;
  });
  if (worst == nullptr) return;
  findings.push_back(
      {.rule = "massive-activations",
       .severity = Severity::kNote,
       .site = worst->site,
       .what = fmt::format("feature {:.0f} of token {:.0f} reaches {:.0f}, {:.0f} times the median",
                           worst->peak_feature, worst->peak_token, worst->abs_max,
                           worst->abs_max / worst->abs_median),
       .because = "most large models have some (Sun et al. 2024): they act as a bias of attention",
       .fix = "no fix needed; take them into account when you quantize",
       .measured = worst->abs_max});
}

void note_stream_growth(const Subject& subject, Findings& findings) {
  const std::size_t layers = subject.profile.model.n_layers;
  const auto placements = placements_of(subject.profile.model);
  const bool is_normalized = placements && placements->back().feed_forward.after == Slot::kNorm;
  if (layers < 2 || is_normalized) return;
  const ProfileEntry* first = last_entry(subject, {0, SublayerKind::kAttention, Point::kX});
  const ProfileEntry* last =
      last_entry(subject, {layers - 1, SublayerKind::kFeedForward, Point::kSum});
  constexpr double kMost = 3000;  // published models: up to 2,700
  if (first == nullptr || last == nullptr || !(last->rms > kMost * first->rms)) return;
  findings.push_back(
      {.rule = "stream-growth",
       .severity = Severity::kNote,
       .site = last->site,
       .where = "residual stream",
       .what = fmt::format("grows from RMS {:.3g} to {:.3g}, {:.3g} times, over {} layers",
                           first->rms, last->rms, last->rms / first->rms, layers),
       .because = "published models grow from 5 times (OLMo 2) to 2,700 times "
                  "(Qwen3-1.7B); growth alone is no defect",
       .fix = "no fix needed",
       .measured = last->rms / first->rms});
}

}  // namespace addnorm::doctor
