#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "doctor/norm_fit.h"
#include "doctor/rules.h"

/// Rules over a norm's computation: its axis, its kind and its γ. divisor_rules.cc has the rules
/// over its divisor, with ε. norm_place_rules.cc has those over the places of norms.

namespace addnorm::doctor {
namespace {

/// Returns axes of a profile as words: "tokens and features" for "tokens,features".
std::string axis_words(std::string_view axes) {
  if (axes == "sequences,tokens,features") return "everything";
  std::string words(axes);
  const std::size_t comma = words.find(',');
  return comma == std::string::npos ? words : words.replace(comma, 1, " and ");
}

/// Returns NormFit::statistic as words.
std::string_view statistic_words(std::string_view statistic) {
  if (statistic == "deviation") return "the deviation";
  if (statistic == "rms") return "the root mean square";
  if (statistic == "absolute_deviation") return "the mean absolute deviation";
  return statistic == "absolute_value" ? "the mean absolute value" : statistic;
}

/// Returns the power of a row's statistic as words: "the root of the deviation".
std::string divisor_words(std::string_view statistic, double power) {
  const double size = std::abs(power);
  return fmt::format("{}{}{}", power < 0 ? "the reciprocal of " : "",
                     size == 0.5 ? "the root of "
                     : size == 2 ? "the square of "
                     : size == 4 ? "the fourth power of "
                                 : "",
                     statistic_words(statistic));
}

}  // namespace

void find_wrong_norm_axis(const Subject& subject, Findings& findings) {
  for_all_norms(subject, [&](const ProfileEntry& norm, const NormFit& fit) {
    const bool is_known = !fit.statistics_over.empty();
    if (!is_known && is_of_rows(fit)) return;
    const double unexplained = fit.unexplained.value_or(Subject::kUnknown);
    findings.push_back(
        {.rule = "norm-axis",
         .site = norm.site,
         .what = is_known
                     ? fmt::format("takes its statistics over {}", axis_words(fit.statistics_over))
                     : fmt::format("{:.0f} % of its output is not γ ⊙ (row − centre)/divisor + β",
                                   100 * unexplained),
         .because = "one mean and one standard deviation for each token, of its features alone",
         .fix = "take mean and variance over the last axis alone: dim=-1, and normalized_shape of "
                "one number; look for what else changes its output",
         .measured = unexplained,
         .expected = 0,
         .shared_axes = fit.statistics_over});
  });
}

void find_wrong_statistics(const Subject& subject, Findings& findings) {
  for_all_norms(subject, [&](const ProfileEntry& norm, const NormFit& fit) {
    if (is_of_rows(fit) && fit.divisor && divides_by_another_statistic(*fit.divisor)) {
      findings.push_back(
          {.rule = "norm-kind",
           .severity = Severity::kSuspicious,
           .site = norm.site,
           .what = "divides each row by a number that neither its deviation nor its root mean "
                   "square determines",
           .because = "LayerNorm divides by the deviation, RMSNorm by the root mean square",
           .fix = "check the statistic; if this norm is intended, ignore the finding",
           .measured = fit.divisor->noise,
           .expected = 0});
      return;
    }
    if (fit.statistic.empty()) return;
    const bool is_declared =
        subject.profile.model.norm_at(norm.site.layer).kind && !is_norm_in_attention(norm.site);
    const bool is_usual = fit.statistic == "deviation" || fit.statistic == "rms";
    findings.push_back({.rule = is_usual ? "norm-power" : "norm-kind",
                        .severity = is_declared ? Severity::kBroken : Severity::kSuspicious,
                        .site = norm.site,
                        .what = fmt::format("divides each row by {}",
                                            divisor_words(fit.statistic, fit.power.value_or(1))),
                        .because = fit.centred.value_or(0) > 0.5
                                       ? "the root of the variance plus ε, as LayerNorm does"
                                       : "the root of the mean square plus ε, as RMSNorm does",
                        .fix = "check the exponent, rsqrt or sqrt, and what is averaged"});
  });
}

void find_overflowing_norms(const Subject& subject, Findings& findings) {
  for_all_norms(subject, [&](const ProfileEntry& norm, const NormFit& fit) {
    if (!fit.vanished) return;
    findings.push_back({.rule = "norm-overflow",
                        .site = norm.site,
                        .what = "its output is 0, though neither its rows nor γ are",
                        .because = "γ ⊙ (row − centre)/divisor + β",
                        .fix =
                            "compute the statistics in float32: x² of a float16 is infinite from "
                            "256 on, and its reciprocal is 0"});
  });
}

void find_wrong_modulations(const Subject& subject, Findings& findings) {
  constexpr double kNearOne = 0.7;  // the largest distance from 1; gates have a mean of 1/2
  for_norms(subject, [&](const ProfileEntry& norm, const NormFit& fit) {
    if (!fit.modulation_mean || !fit.modulation_std) return;
    const double mean = *fit.modulation_mean;
    if (std::abs(mean - 1) < kNearOne || std::abs(mean) > *fit.modulation_std + 1e-3) return;
    findings.push_back(
        {.rule = "modulation-around-zero",
         .severity = Severity::kSuspicious,
         .site = norm.site,
         .what = fmt::format("its output is multiplied by computed factors of {:.2g} ± {:.2g}",
                             mean, *fit.modulation_std),
         .because = "factors of 1 + scale, which keep the norm's output before training (Peebles & "
                    "Xie 2023, adaLN)",
         .fix = "multiply by 1 + scale",
         .measured = mean,
         .expected = 1});
  });
}

void find_wrong_norm_kind(const Subject& subject, Findings& findings) {
  for_norms(subject, [&](const ProfileEntry& norm, const NormFit& fit) {
    const std::optional<NormKind> declared = subject.profile.model.norm_at(norm.site.layer).kind;
    if (!is_of_rows(fit) || !fit.centred || !declared || !normalizes_rows(*declared)) return;
    const bool centres = *fit.centred > 0.5;
    if (centres == (declared == NormKind::kLayer)) return;
    const bool is_design = is_said_of_most(subject, norm, [&](const NormFit& other) {
      return other.declared_norm == to_string(centres ? NormKind::kLayer : NormKind::kRms);
    });
    findings.push_back(
        {.rule = "norm-kind",
         .severity = is_design ? Severity::kNote : Severity::kBroken,
         .site = norm.site,
         .what = centres ? fmt::format("subtracts {:.0f} % of each row's mean, as LayerNorm does",
                                       100 * *fit.centred)
                         : "keeps each row's mean, as RMSNorm does",
         .because = fmt::format("the network declares {}", title_of(*declared)),
         .fix = centres ? "use RMSNorm here: the weights were trained with the mean kept"
                        : "use LayerNorm here: the weights were trained with the mean subtracted",
         .measured = *fit.centred,
         .expected = declared == NormKind::kLayer ? 1.0 : 0.0});
  });
}

namespace {

/// Whether nonzero rows become 0 because γ is 0.
bool is_silenced(const Subject& subject, const ProfileEntry& norm) {
  const std::optional<NormSlot> slot = norm_slot(norm.site);
  if (norm.rms != 0 || !slot || slot == NormSlot::kFinal) return false;
  const auto rms_at = [&](Point point, NormSlot of) {
    Site site = norm.site;
    site.point = point;
    site.norm = of;
    const ProfileEntry* entry = last_entry(subject, site);
    return entry == nullptr ? Subject::kUnknown : entry->rms;
  };
  const Point input = slot == NormSlot::kBefore   ? Point::kX
                      : slot == NormSlot::kInside ? Point::kBranch
                                                  : Point::kSum;
  return rms_at(Point::kGamma, *slot) == 0 && rms_at(input, NormSlot::kNone) > 0;
}

/// Whether the norm's code declares another kind than most norms: a LayerNorm after RMSNorms need
/// not share the meaning of their γ.
bool is_of_another_kind(const Subject& subject, const NormFit& norm) {
  std::size_t alike = 0, other = 0;
  for_norms(subject, [&](const ProfileEntry&, const NormFit& peer) {
    ++(peer.declared_norm == norm.declared_norm ? alike : other);
  });
  return !norm.declared_norm.empty() && other > alike;
}

/// Whether the norm multiplies by 1 + γ. If γ is 1 everywhere, only the size of the output shows
/// it, not its shape.
std::optional<bool> adds_one(const Placements& placements, const Site& site, const NormFit& fit) {
  if (fit.gamma_offset) return *fit.gamma_offset > 0.5;
  if (!fit.divisor || expected_scale(placements, site) != 1) return std::nullopt;
  return is_doubled(*fit.divisor) ? std::optional(true) : std::nullopt;
}

const char* gamma_words(bool one_plus) {
  return one_plus ? "1 + γ" : "γ";
}

}  // namespace

void find_wrong_gamma_form(const Subject& subject, Findings& findings) {
  const Placements placements = placements_of(subject.profile.model);
  for_norms(subject, [&](const ProfileEntry& norm, const NormFit& fit) {
    const std::optional<GammaForm> declared =
        subject.profile.model.norm_at(norm.site.layer).gamma_form;
    if (!is_of_rows(fit) || !declared || is_of_another_kind(subject, fit)) return;
    const bool one_plus = declared == GammaForm::kOnePlus;
    const bool is_zero = one_plus && is_silenced(subject, norm);
    if (!is_zero && adds_one(placements, norm.site, fit).value_or(one_plus) == one_plus) return;
    findings.push_back(
        {.rule = "gamma-form",
         .site = norm.site,
         .what = fmt::format("multiplies by {}", gamma_words(!one_plus)),
         .because = fmt::format("the checkpoint's γ stands for {}", gamma_words(one_plus)),
         .fix = one_plus ? "multiply by 1 + γ, or add 1 to every γ when the weights are read"
                         : "multiply by γ, or subtract 1 from every γ when the weights are read"});
  });
}

namespace {

constexpr double kDead = 1e-3;

/// Returns the entry of the norm's output, or null if it was not measured. `gamma` is the entry of
/// the norm's γ.
const ProfileEntry* output_of(const Subject& subject, const ProfileEntry& gamma) {
  const auto entries = last_entries(subject.profile);
  const auto found = std::ranges::find_if(entries, [&](const ProfileEntry& entry) {
    return entry.site.layer == gamma.site.layer && entry.site.sublayer == gamma.site.sublayer &&
           entry.site.projection == gamma.site.projection &&
           (is_norm_in_attention(entry.site) ||
            (norm_slot(entry.site) && norm_slot(entry.site) == gamma.site.norm));
  });
  return found == entries.end() ? nullptr : &*found;
}

/// Whether the norm's output contains values other than β, for either meaning of γ.
bool passes(const Subject& subject, const ProfileEntry& gamma) {
  Site site = gamma.site;
  site.point = Point::kBeta;
  const ProfileEntry* beta = last_entry(subject, site);
  const ProfileEntry* output = output_of(subject, gamma);
  return output != nullptr && output->rms > kDead && (beta == nullptr || beta->rms == 0);
}

/// Whether a branch is 0 because its norm's γ starts at 0, and γ has a gradient, as in Swin V2.
bool is_young(const Subject& subject, const ProfileEntry& gamma) {
  return gamma.site.norm == NormSlot::kInside && gamma.rms == 0 && gamma.grad_rms > 0 &&
         is_initial(subject);
}

}  // namespace

void find_dead_gains(const Subject& subject, Findings& findings) {
  for (const ProfileEntry& gamma : last_entries(subject.profile)) {
    if (gamma.site.point != Point::kGamma) continue;
    const bool one_plus =
        subject.profile.model.norm_at(gamma.site.layer).gamma_form == GammaForm::kOnePlus;
    const double size = gain_rms(subject, gamma);
    if (!(size < kDead) || passes(subject, gamma) || is_young(subject, gamma)) continue;
    findings.push_back(
        {.rule = "dead-norm",
         .site = gamma.site,
         .what =
             fmt::format("the norm's gain has a root mean square of {:.1e}: nothing passes", size),
         .because = "a gain starts at 1; trained ones stay within 0.01 and 100",
         .fix = !one_plus ? "if γ is stored as γ − 1, as in Gemma, multiply by 1 + γ"
                          : "if γ is stored as it is, do not add 1",
         .measured = size});
  }
}

}  // namespace addnorm::doctor
