#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "doctor/layers.h"
#include "doctor/places.h"
#include "doctor/rules.h"

namespace addnorm::doctor {
namespace {

Finding finding_at(const probe::ProfileEntry& norm, std::string_view rule) {
  return {.rule = rule, .site = norm.site, .where = norm_text(norm.site)};
}

/// What the output of a norm is multiplied with by its placement: 1/√l where that scales by depth.
double expected_scale(const Placements& placements, const Site& site) {
  const Placement* placement = placement_at(placements, site);
  if (placement == nullptr || site.point != Point::kBefore) return 1;
  return placement->before_scale.value({site.layer + 1, placements->size()});
}

/// Whether a norm's output is larger than any ε makes it: then it is not ε that is wrong.
bool is_too_large(const Placements& placements, const probe::ProfileEntry& norm) {
  return norm.scale > 1.05 * expected_scale(placements, norm.site);
}

/// Whether what comes out is twice what should, also of rows that are small beside ε.
bool is_doubled(const Placements& placements, const probe::ProfileEntry& norm) {
  return expected_scale(placements, norm.site) == 1 &&
         (std::abs(norm.scale - 2) < 0.1 || std::abs(norm.divisor_slope - 0.25) < 0.01);
}

/// Whether the norm multiplies with 1 + γ. A γ of 1 everywhere is ambiguous in its shape, but
/// doubles what comes out.
std::optional<bool> adds_one(const Placements& placements, const probe::ProfileEntry& norm) {
  if (!std::isnan(norm.gamma_offset)) return norm.gamma_offset > 0.5;
  if (is_doubled(placements, norm)) return true;
  return std::nullopt;
}

const char* gamma_words(bool one_plus) {
  return one_plus ? "1 + γ" : "γ";
}

/// The fit knows a row's divisor² to about this much, in float32.
double resolution(const probe::ProfileEntry& norm) {
  return 2e-6 * norm.divisor * norm.divisor;
}

/// divisor − σ is ε in all rows, where divisor² − σ² differs from row to row.
bool is_outside_the_root(const probe::ProfileEntry& norm, double epsilon) {
  const double spread = norm.eps_in_deviation_spread;
  return std::abs(norm.eps_in_deviation - epsilon) <= 0.2 * epsilon && spread < 0.3 * epsilon &&
         resolution(norm) < epsilon * norm.divisor &&
         spread / norm.eps_in_deviation <
             0.5 * norm.eps_in_variance_spread / std::abs(norm.eps_in_variance);
}

/// Of a norm's output: where more is not Γ ⊙ (row − centre)/divisor + β, numbers of that fit say
/// nothing. bfloat16 leaves 0.4 %, a norm over another axis some ten.
constexpr double kMostForeign = 0.05;

bool is_of_rows(const probe::ProfileEntry& norm) {
  return !(norm.unexplained > kMostForeign);
}

/// Calls body(entry) for the output of every norm whose rows are what a norm makes of rows.
template <typename Body>
void for_norms_of_rows(const Subject& subject, const Body& body) {
  for_norms(subject, [&](const probe::ProfileEntry& norm) {
    if (is_of_rows(norm)) body(norm);
  });
}
template <typename Body>
void for_all_norms_of_rows(const Subject& subject, const Body& body) {
  for_all_norms(subject, [&](const probe::ProfileEntry& norm) {
    if (is_of_rows(norm)) body(norm);
  });
}

/// What divisor_noise may be: statistics in float32 leave 1e-7. PyTorch itself rounds them where a
/// norm's weights are in 16 bits, and the output's rounding blurs the fit.
double most_noise(const std::string& dtype) {
  if (dtype == "bfloat16") return 2e-2;
  return dtype == "float16" ? 3e-3 : 1e-5;
}

}  // namespace

void find_wrong_norm_axis(const Subject& subject, Findings& findings) {
  for_all_norms(subject, [&](const probe::ProfileEntry& norm) {
    const bool is_known = !norm.statistics_over.empty();
    if (!is_known && !(norm.unexplained > kMostForeign)) return;
    Finding finding = finding_at(norm, "norm-axis");
    finding.shared_by = norm.statistics_over;
    finding.what = is_known ? fmt::format("takes its statistics over {}", norm.statistics_over)
                            : fmt::format(
                                  "{:.0f} % of its output is not γ ⊙ (row − "
                                  "centre)/divisor + β",
                                  100 * norm.unexplained);
    finding.because = "each token's features have one mean and one deviation, and no other token's";
    finding.fix =
        "take mean and variance over the last axis alone: dim=-1, and normalized_shape of "
        "one number; look for what else changes its output";
    finding.measured = norm.unexplained;
    finding.expected = 0;
    findings.push_back(std::move(finding));
  });
}

void find_wrong_statistics(const Subject& subject, Findings& findings) {
  for_all_norms(subject, [&](const probe::ProfileEntry& norm) {
    if (norm.divides_by.empty()) return;
    Finding finding = finding_at(norm, "norm-kind");
    if (!subject.profile.model.norm_at(norm.site.layer).kind || is_norm_in_attention(norm.site))
      finding.severity = Severity::kSuspicious;
    finding.what = fmt::format("divides each row by {}", norm.divides_by);
    finding.because = norm.centred > 0.5 ? "the root of the variance plus ε, as LayerNorm does"
                                         : "the root of the mean square plus ε, as RMSNorm does";
    finding.fix = "look at the exponent, at rsqrt or sqrt, and at what is averaged";
    findings.push_back(std::move(finding));
  });
}

namespace {

/// Whether this norm's own code says what was measured, and that of half of the norms at its place
/// in other layers of its stack does too: then a network has norms of two kinds on purpose.
template <typename Says>
bool is_said_of_most(const Subject& subject, const probe::ProfileEntry& norm, const Says& says) {
  std::size_t alike = 0, all = 0;
  for_norms(subject, [&](const probe::ProfileEntry& other) {
    const io::ProfileModel& model = subject.profile.model;
    if (other.site.sublayer != norm.site.sublayer || other.site.point != norm.site.point) return;
    if (model.norm_at(other.site.layer) != model.norm_at(norm.site.layer)) return;
    if (norm.site.sublayer == SublayerKind::kFinalNorm && other.site.layer != norm.site.layer)
      return;
    ++all;
    alike += says(other);
  });
  const bool stands_alone = all == 1;
  return says(norm) && (stands_alone || (alike > 1 && 2 * alike >= all));
}

}  // namespace

void find_wrong_norm_kind(const Subject& subject, Findings& findings) {
  for_norms_of_rows(subject, [&](const probe::ProfileEntry& norm) {
    const std::optional<NormKind> declared = subject.profile.model.norm_at(norm.site.layer).kind;
    if (!declared || !normalizes_rows(*declared) || std::isnan(norm.centred)) return;
    const bool centres = norm.centred > 0.5;
    if (centres == (declared == NormKind::kLayer)) return;
    Finding finding = finding_at(norm, "norm-kind");
    if (is_said_of_most(subject, norm, [&](const probe::ProfileEntry& other) {
          return other.declared_norm == to_string(centres ? NormKind::kLayer : NormKind::kRms);
        }))
      finding.severity = Severity::kNote;
    finding.what = centres
                       ? fmt::format("takes {:.0f} % of each row's mean away, as LayerNorm does",
                                     100 * norm.centred)
                       : "leaves each row's mean in, as RMSNorm does";
    finding.because = fmt::format("the network says {}", title_of(*declared));
    finding.fix = centres ? "use RMSNorm here: the weights were trained with the mean left in"
                          : "use LayerNorm here: the weights were trained with the mean taken away";
    finding.measured = norm.centred;
    finding.expected = declared == NormKind::kLayer ? 1 : 0;
    findings.push_back(std::move(finding));
  });
}

namespace {

/// Whether a γ of 0 makes 0 of rows that are not.
bool is_silenced(const Subject& subject, const probe::ProfileEntry& norm) {
  const std::optional<NormSlot> slot = norm_slot(norm.site);
  if (norm.rms != 0 || !slot || slot == NormSlot::kFinal) return false;
  const auto rms_at = [&](Point point, NormSlot of) {
    Site site = norm.site;
    site.point = point;
    site.norm = of;
    const probe::ProfileEntry* entry =
        find_entry(subject.profile, last_step(subject.profile), site);
    return entry == nullptr ? Subject::kUnknown : entry->rms;
  };
  const Point input = slot == NormSlot::kBefore   ? Point::kX
                      : slot == NormSlot::kInside ? Point::kBranch
                                                  : Point::kSum;
  return rms_at(Point::kGamma, *slot) == 0 && rms_at(input, NormSlot::kNone) > 0;
}

/// Whether its code says another kind of norm than that of most: a LayerNorm behind RMSNorms, whose
/// γ it need not share.
bool is_of_another_kind(const Subject& subject, const probe::ProfileEntry& norm) {
  std::size_t alike = 0, other = 0;
  for_norms(subject, [&](const probe::ProfileEntry& peer) {
    ++(peer.declared_norm == norm.declared_norm ? alike : other);
  });
  return !norm.declared_norm.empty() && other > alike;
}

}  // namespace

void find_wrong_gamma_form(const Subject& subject, Findings& findings) {
  const Placements placements = placements_of(subject.profile.model);
  for_norms_of_rows(subject, [&](const probe::ProfileEntry& norm) {
    const std::optional<GammaForm> declared =
        subject.profile.model.norm_at(norm.site.layer).gamma_form;
    if (!declared || is_of_another_kind(subject, norm)) return;
    const bool one_plus = declared == GammaForm::kOnePlus;
    const bool is_zero = one_plus && is_silenced(subject, norm);
    if (!is_zero && adds_one(placements, norm).value_or(one_plus) == one_plus) return;
    Finding finding = finding_at(norm, "gamma-form");
    finding.what = fmt::format("multiplies with {}", gamma_words(!one_plus));
    finding.because = fmt::format("the checkpoint's γ means {}", gamma_words(one_plus));
    finding.fix = one_plus ? "multiply with 1 + γ, or add 1 to every γ when the weights are read"
                           : "multiply with γ, or take 1 from every γ when the weights are read";
    findings.push_back(std::move(finding));
  });
}

namespace {

/// Where divisor² = k·σ² + ε, k is what it should be, 1, but where fits are blurred: in 16 bits, or
/// where ε is added to the deviation.
bool has_wrong_divisor(const Placements& placements, const probe::ProfileEntry& norm,
                       double epsilon) {
  constexpr double kMost = 2e-3;
  const bool is_clear = norm.divisor_noise < kMost && norm.dtype != "bfloat16" &&
                        norm.dtype != "float16" && expected_scale(placements, norm.site) == 1;
  return is_clear && std::abs(norm.divisor_slope - 1) > kMost && !is_too_large(placements, norm) &&
         !is_doubled(placements, norm) && !is_outside_the_root(norm, epsilon);
}

/// "n − 1 for n", where that is the slope.
std::string divisor_text(double slope, double features) {
  if (std::abs(slope * (features - 1) / features - 1) < 1e-3) return " = n/(n − 1)";
  if (std::abs(slope / features - 1) < 1e-2) return " = n";
  return "";
}

}  // namespace

void find_wrong_divisors(const Subject& subject, Findings& findings) {
  const io::ProfileModel& model = subject.profile.model;
  const Placements placements = placements_of(model);
  for_all_norms_of_rows(subject, [&](const probe::ProfileEntry& norm) {
    if (!has_wrong_divisor(placements, norm, subject.profile.model.norm_at(norm.site.layer).eps))
      return;
    Finding finding = finding_at(norm, "variance-divisor");
    finding.what =
        fmt::format("divides by the root of {:.5g}{} times the row's variance", norm.divisor_slope,
                    divisor_text(norm.divisor_slope, double(model.d_model)));
    finding.because = "the sum of squares over n, the number of features, plus ε";
    finding.fix =
        "take the mean of the squares: torch.var divides by n − 1 unless you pass unbiased=False, "
        "a "
        "sum divides by nothing";
    finding.measured = norm.divisor_slope;
    finding.expected = 1;
    findings.push_back(std::move(finding));
  });
}

void find_wrong_epsilon(const Subject& subject, Findings& findings) {
  const Placements placements = placements_of(subject.profile.model);
  for_norms_of_rows(subject, [&](const probe::ProfileEntry& norm) {
    const double declared = subject.profile.model.norm_at(norm.site.layer).eps;
    if (!(declared > 0)) return;
    if (std::isnan(norm.eps_in_variance) || expected_scale(placements, norm.site) != 1) return;
    if (is_too_large(placements, norm) || has_wrong_divisor(placements, norm, declared)) return;
    if (is_outside_the_root(norm, declared)) {
      Finding finding = finding_at(norm, "epsilon-place");
      finding.what =
          fmt::format("adds ε to the deviation: divisor − σ is {:.2e} ± {:.0e} in all rows",
                      norm.eps_in_deviation, norm.eps_in_deviation_spread);
      finding.because = fmt::format("√(σ² + ε) with ε = {:.0e}", declared);
      finding.fix = "add ε to the variance, under the root";
      finding.measured = norm.eps_in_deviation;
      finding.expected = declared;
      findings.push_back(std::move(finding));
      return;
    }
    const double uncertain = std::max(3 * norm.eps_in_variance_spread, resolution(norm));
    if (std::abs(norm.eps_in_variance - declared) <= 0.2 * declared + uncertain) return;
    Finding finding = finding_at(norm, "epsilon-size");
    if (is_said_of_most(subject, norm, [&](const probe::ProfileEntry& other) {
          return std::abs(norm.eps_in_variance - other.declared_eps) <=
                 0.2 * other.declared_eps + uncertain;
        }))
      finding.severity = Severity::kNote;
    finding.what =
        fmt::format("ε is {:.2e}: divisor² − σ² in the mean of all rows", norm.eps_in_variance);
    finding.because = fmt::format("ε = {:.0e}, as the network says", declared);
    finding.fix = fmt::format("set ε to {:.0e}", declared);
    finding.measured = norm.eps_in_variance;
    finding.expected = declared;
    findings.push_back(std::move(finding));
  });
}

/// A norm that divides by √ε does not normalize: it multiplies with a constant.
void note_large_epsilon(const Subject& subject, Findings& findings) {
  for (const probe::ProfileEntry& entry : last_entries(subject.profile)) {
    const double epsilon = subject.profile.model.norm_at(entry.site.layer).eps;
    if (entry.site.point != Point::kDeviation || !(epsilon > 0)) continue;
    const double variance = entry.rms * entry.rms - epsilon;  // the measured value includes ε
    if (!(variance < epsilon)) continue;
    findings.push_back(
        {.rule = "epsilon-large",
         .severity = Severity::kNote,
         .site = entry.site,
         .where = norm_text(entry.site),
         .what = fmt::format("the rows' variance is {:.1e}, less than ε = {:.0e}: the norm scales "
                             "them by a constant more than it normalizes",
                             std::max(variance, 0.0), epsilon),
         .because = "a norm makes rows alike where ε is small beside their variance",
         .fix =
             "no fix needed in a trained model; before training use a smaller ε or larger initial "
             "weights",
         .measured = epsilon,
         .expected = variance});
  }
}

void find_rounded_statistics(const Subject& subject, Findings& findings) {
  for_all_norms_of_rows(subject, [&](const probe::ProfileEntry& norm) {
    const double most = most_noise(norm.dtype);
    if (!(norm.divisor_noise > most)) return;
    Finding finding = finding_at(norm, "rounded-statistics");
    finding.what =
        fmt::format("rows of the same deviation are divided by numbers that differ by {:.1e}",
                    norm.divisor_noise / 2);
    finding.because = fmt::format("at most {:.0e}: statistics in float32 agree to 1e-7", most / 2);
    finding.fix = "compute mean, variance and their root in float32 whatever the row's type";
    finding.measured = norm.divisor_noise;
    finding.expected = 0;
    findings.push_back(std::move(finding));
  });
}

void find_lost_depth_scale(const Subject& subject, Findings& findings) {
  const Placements placements = placements_of(subject.profile.model);
  for_norms(subject, [&](const probe::ProfileEntry& norm) {
    const double expected = expected_scale(placements, norm.site);
    if (expected == 1 || std::isnan(norm.scale)) return;
    if (std::abs(norm.scale / expected - 1) < 0.05) return;
    Finding finding = finding_at(norm, "depth-scale");
    finding.what = fmt::format("its output is {:.3g} of the normalized row", norm.scale);
    finding.because =
        fmt::format("1/√{} = {:.3g}{}", norm.site.layer + 1, expected, by_placement(subject));
    finding.fix =
        "scale the norm's output by 1/√l; a buffer that no checkpoint keeps must be made anew";
    finding.measured = norm.scale;
    finding.expected = expected;
    findings.push_back(std::move(finding));
  });
}

namespace {

/// Which of the slots before, inside and after have a norm, as bits.
unsigned slots_of(const Subject& subject, std::size_t layer, SublayerKind sublayer) {
  unsigned slots = 0;
  for (const Point point : {Point::kBefore, Point::kInside, Point::kAfter}) {
    const Site site{layer, sublayer, point};
    const probe::ProfileEntry* entry =
        find_entry(subject.profile, last_step(subject.profile), site);
    slots = 2 * slots + (entry != nullptr ? 1 : 0);
  }
  return slots;
}

unsigned slots_of(const Placement& placement) {
  return 4 * unsigned{placement.before != Slot::kNothing} +
         2 * unsigned{placement.inside != Slot::kNothing} +
         unsigned{placement.after != Slot::kNothing};
}

std::string slots_text(unsigned slots) {
  std::vector<const char*> names;
  if (slots & 4) names.push_back("before it");
  if (slots & 2) names.push_back("on its branch");
  if (slots & 1) names.push_back("after the sum");
  return names.empty() ? "no norm" : fmt::format("a norm {}", fmt::join(names, " and "));
}

/// What more than half of the layers have there; nothing where no majority is.
std::optional<unsigned> usual_slots(const Subject& subject, SublayerKind sublayer) {
  const std::size_t layers = subject.profile.model.n_layers;
  std::array<std::size_t, 8> counts{};
  for (std::size_t l = 0; l < layers; ++l) ++counts[slots_of(subject, l, sublayer)];
  const auto most = std::ranges::max_element(counts);
  if (layers < 3 || 2 * *most <= layers) return std::nullopt;
  return static_cast<unsigned>(most - counts.begin());
}

}  // namespace

/// By what the placement says, or, where that has nothing to say, by what most layers have.
void find_misplaced_norms(const Subject& subject, Findings& findings) {
  const bool any =
      std::ranges::any_of(last_entries(subject.profile), [](const probe::ProfileEntry& e) {
        return e.site.sublayer != SublayerKind::kFinalNorm && norm_slot(e.site);
      });
  if (!any) return;  // nobody looked at norms
  if (subject.profile.model.placement == "unknown") return;
  const Placements placements = placements_of(subject.profile.model);
  for (const SublayerKind sublayer : {SublayerKind::kAttention, SublayerKind::kFeedForward}) {
    const std::optional<unsigned> usual = usual_slots(subject, sublayer);
    for (std::size_t l = 0; l < subject.profile.model.n_layers; ++l) {
      const Site site{l, sublayer, Point::kSum};
      if (find_entry(subject.profile, last_step(subject.profile), site) == nullptr) continue;
      const Placement* placement = placement_at(placements, site);
      const std::optional<unsigned> expected = placement ? slots_of(*placement) : usual;
      const unsigned seen = slots_of(subject, l, sublayer);
      if (!expected || seen == *expected) continue;
      findings.push_back(
          {.rule = "norm-misplaced",
           .severity = Severity::kBroken,
           .site = site,
           .where = place_text(site),
           .what = fmt::format("has {}", slots_text(seen)),
           .because = placement ? fmt::format("{}{}", slots_text(*expected), by_placement(subject))
                                : fmt::format("{}, as most layers have", slots_text(*expected)),
           .fix = "look where the sublayer's norm is called, and whether its output is used"});
    }
  }
}

void find_missing_final_norm(const Subject& subject, Findings& findings) {
  const Placements placements = placements_of(subject.profile.model);
  const std::size_t layers = subject.profile.model.n_layers;
  const bool has_one = placements && placements->back().feed_forward.final_norm == Slot::kNorm;
  if (!subject.lacks_final_norm && !has_one) return;
  const auto at = [&](SublayerKind sublayer, Point point, std::size_t layer) {
    return find_entry(subject.profile, last_step(subject.profile), {layer, sublayer, point});
  };
  const probe::ProfileEntry* last = at(SublayerKind::kFeedForward, Point::kSum, layers - 1);
  // Without its files only where the end of the network was measured at all.
  const probe::ProfileEntry* head = at(SublayerKind::kHead, Point::kOutput, layers);
  const bool is_seen = head != nullptr && head->reads_stream != 0 &&
                       at(SublayerKind::kFinalNorm, Point::kOutput, layers) == nullptr;
  if (last != nullptr && is_of_lanes(*last)) return;  // each lane may have its norm
  if (last == nullptr || std::isnan(last->rms) || (!subject.lacks_final_norm && !is_seen)) return;
  findings.push_back(
      {.rule = "final-norm",
       .severity = Severity::kBroken,
       .site = Site{layers, SublayerKind::kFinalNorm, Point::kOutput},
       .where = "final norm",
       .what = fmt::format("there is none: what follows reads the stream itself, of RMS {:.3g}",
                           last->rms),
       .because = fmt::format("a stack ends with a norm{}", by_placement(subject)),
       .fix = "normalize the stream after the last layer, before the head",
       .measured = last->rms,
       .expected = 1});
}

namespace {

constexpr double kDead = 1e-3;

/// The entry of the output of the norm whose γ this is; null where it was not measured.
const probe::ProfileEntry* output_of(const Subject& subject, const probe::ProfileEntry& gamma) {
  const auto entries = last_entries(subject.profile);
  const auto found = std::ranges::find_if(entries, [&](const probe::ProfileEntry& entry) {
    return entry.site.layer == gamma.site.layer && entry.site.sublayer == gamma.site.sublayer &&
           entry.site.projection == gamma.site.projection &&
           (is_norm_in_attention(entry.site) ||
            (norm_slot(entry.site) && norm_slot(entry.site) == gamma.site.norm));
  });
  return found == entries.end() ? nullptr : &*found;
}

/// Whether values come out of the norm that are no β, whatever its γ means.
bool passes(const Subject& subject, const probe::ProfileEntry& gamma) {
  Site site = gamma.site;
  site.point = Point::kBeta;
  const probe::ProfileEntry* beta = find_entry(subject.profile, last_step(subject.profile), site);
  const probe::ProfileEntry* output = output_of(subject, gamma);
  return output != nullptr && output->rms > kDead && (beta == nullptr || beta->rms == 0);
}

/// Whether a branch begins with nothing, by the γ of its norm, and learns: as Swin V2's do.
bool is_young(const Subject& subject, const probe::ProfileEntry& gamma) {
  return gamma.site.norm == NormSlot::kInside && gamma.rms == 0 && gamma.grad_rms > 0 &&
         is_initial(subject);
}

}  // namespace

void find_dead_gains(const Subject& subject, Findings& findings) {
  for (const probe::ProfileEntry& gamma : last_entries(subject.profile)) {
    if (gamma.site.point != Point::kGamma) continue;
    const bool one_plus =
        subject.profile.model.norm_at(gamma.site.layer).gamma_form == GammaForm::kOnePlus;
    const double size = gain(subject, gamma);
    if (!(size < kDead) || passes(subject, gamma) || is_young(subject, gamma)) continue;
    findings.push_back({.rule = "dead-norm",
                        .severity = Severity::kBroken,
                        .site = gamma.site,
                        .where = norm_text(gamma.site),
                        .what = fmt::format("the norm's gain is {:.1e} in the root mean square: "
                                            "nothing passes",
                                            size),
                        .because = "a gain starts at 1; trained ones stay within 0.01 and 100",
                        .fix = !one_plus ? "is γ stored as γ − 1, as Gemma does? then multiply "
                                           "with 1 + γ"
                                         : "is γ stored as it is? then do not add 1",
                        .measured = size});
  }
}

}  // namespace addnorm::doctor
