#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "doctor/placements.h"
#include "doctor/places.h"
#include "doctor/remedy.h"
#include "doctor/rules.h"
#include "model/family_facts.h"

/// Rules over a network before its first step. After training its numbers may differ for good
/// reasons, so these rules do not apply then.

namespace addnorm::doctor {
namespace {

const ProfileEntry* first_at(const Subject& subject, const Site& site) {
  return find_entry(subject.profile, first_step(subject.profile), site);
}

/// The entries of the first layer's input and of the last layer's output.
const ProfileEntry* stream_begin(const Subject& subject) {
  return first_at(subject, {0, SublayerKind::kAttention, Point::kX});
}
const ProfileEntry* stream_end(const Subject& subject) {
  const std::size_t layers = subject.profile.model.n_layers;
  if (layers == 0) return nullptr;
  for (const Site& site : probe::stream_sites(layers, layers)) {
    if (const ProfileEntry* entry = first_at(subject, site)) return entry;
  }
  return nullptr;
}

/// Returns the gradient at the first layer's input, divided by that at the last layer's output.
double gradient_ratio(const Subject& subject) {
  const ProfileEntry* begin = stream_begin(subject);
  const ProfileEntry* end = stream_end(subject);
  if (begin == nullptr || end == nullptr) return Subject::kUnknown;
  return begin->grad_rms / end->grad_rms;
}

/// Whether there is a finding about a sum. It explains lost gradients, which are then not reported.
bool has_wrong_sums(const Subject& subject) {
  Findings findings;
  find_wrong_sums(subject, findings);
  return !findings.empty();
}

/// Whether the gradient that bypasses the sublayers is unknown. With several lanes, only the
/// gradient of a sublayer's input is measured. It is about as large as the bypassing one only if a
/// norm divides by the size of small lanes, which DyT and Derf do not.
bool hides_what_goes_past(const Subject& subject) {
  if (has_lanes(subject)) return true;  // the size of branches is unknown there
  const Placements placements = placements_of(subject.profile.model);
  const std::optional<NormKind> norm = subject.profile.model.norm;
  return norm && squashes(*norm) && placements &&
         std::ranges::any_of(*placements, [](const BlockPlacement& block) {
           return block.attention.lanes.several() || block.feed_forward.lanes.several();
         });
}

double last_token_cosine(const Subject& subject) {
  const ProfileEntry* end = stream_end(subject);
  return end == nullptr ? Subject::kUnknown : end->token_cosine;
}

}  // namespace

void find_lost_gradients(const Subject& subject, Findings& findings) {
  constexpr double kLeast = 1e-3;
  constexpr double kMost = 1e4;
  if (!is_initial(subject) || has_wrong_sums(subject) || hides_what_goes_past(subject)) return;
  const double ratio = gradient_ratio(subject);
  const bool vanishes = ratio < kLeast;
  if (!vanishes && !(ratio > kMost)) return;
  Finding finding{
      .rule = vanishes ? "gradient-vanishes" : "gradient-explodes",
      .severity = Severity::kSuspicious,
      .site = stream_begin(subject)->site,
      .where = "residual stream",
      .what = fmt::format(
          "before training, the first layer's gradient is {:.2g} times the last one's", ratio),
      .because = fmt::format("between {:.0e} and {:.0e}: with a residual the gradient keeps a part "
                             "that no layer changes (He et al. 2016)",
                             kLeast, kMost),
      .fix =
          "put a residual around every sublayer and a norm in it; use smaller initial weights "
          "where branches enter the stream; give post-norm DeepNorm's factors",
      .measured = ratio,
      .expected = 1,
      .remedies = change_settings(subject, {place_pre})};
  finding.measure.is_initial = true;
  finding.measure.name = "first layer's gradient over the last one's";
  finding.measure.of = gradient_ratio;
  finding.measure.is_sound = [](double r) { return r >= kLeast && r <= kMost; };
  findings.push_back(std::move(finding));
}

/// Dong et al. 2021: without a residual, attention makes all tokens alike at a doubly exponential
/// rate. With a residual, tokens may become similar in stacks that train well.
void find_collapsed_tokens(const Subject& subject, Findings& findings) {
  constexpr double kMost = 0.99;
  if (!is_initial(subject) || has_wrong_sums(subject)) return;
  const Placements placements = placements_of(subject.profile.model);
  const Placement* placement = only_placement(placements);
  if (placement == nullptr || constant_factor(placement->skip, {1, 1}) != 0) return;
  const ProfileEntry* begin = stream_begin(subject);
  const double cosine = last_token_cosine(subject);
  if (begin == nullptr || !(cosine > kMost) || !(begin->token_cosine < 0.9)) return;
  Finding finding{.rule = "tokens-collapse",
                  .severity = Severity::kSuspicious,
                  .site = stream_end(subject)->site,
                  .where = "residual stream",
                  .what = fmt::format("before training, two tokens that enter with a cosine of "
                                      "{:.2f} leave the last layer with {:.4f}",
                                      begin->token_cosine, cosine),
                  .because = fmt::format(
                      "at most {}: the residual keeps tokens apart (Dong et al. 2021)", kMost),
                  .fix = "put a residual around attention",
                  .measured = cosine,
                  .expected = kMost,
                  .remedies = change_settings(subject, {place_pre})};
  finding.measure.is_initial = true;
  finding.measure.name = "cosine of two tokens after the last layer";
  finding.measure.of = last_token_cosine;
  finding.measure.is_sound = [](double c) { return c <= kMost; };
  findings.push_back(std::move(finding));
}

void find_unscaled_projections(const Subject& subject, Findings& findings) {
  const io::ProfileModel& model = subject.profile.model;
  const bool is_scaled = model.initialization == Initialization::kGpt2 ||
                         model::family_facts(model.model_type).has_scaled_projections;
  if (!is_scaled || model.n_layers < 2 || !is_initial(subject)) return;
  const double expected = 1 / std::sqrt(2.0 * static_cast<double>(model.n_layers));
  const std::size_t step = first_step(subject.profile);
  for (std::size_t layer = 0; layer < model.n_layers; ++layer) {
    const auto weight = [&](SublayerKind sublayer, Projection projection) {
      return find_entry(subject.profile, step,
                        {layer, sublayer, Point::kWeight, NormSlot::kNone, projection});
    };
    const auto compare = [&](const ProfileEntry* inner, const ProfileEntry* outer) {
      if (inner == nullptr || outer == nullptr) return;
      const double ratio = outer->std / inner->std;
      // The logarithmic midpoint of the unscaled and the scaled size.
      if (!(ratio > std::sqrt(expected))) return;
      findings.push_back(
          {.rule = "unscaled-projection",
           .site = outer->site,
           .what = fmt::format(
               "the initial weights of its projection into the stream are {:.3g} times the others",
               ratio),
           .because =
               fmt::format("1/√(2·{}) = {:.3g}, GPT-2's initialization (Radford et al. 2019)",
                           model.n_layers, expected),
           .fix = "divide the output and down projections by √(2N) once after drawing them",
           .measured = ratio,
           .expected = expected});
    };
    compare(weight(SublayerKind::kAttention, Projection::kQuery),
            weight(SublayerKind::kAttention, Projection::kOutput));
    compare(weight(SublayerKind::kFeedForward, Projection::kUp),
            weight(SublayerKind::kFeedForward, Projection::kDown));
  }
}

}  // namespace addnorm::doctor
