#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "doctor/norm_fit.h"
#include "doctor/rules.h"

/// Rules over the divisor of a norm's rows: √(variance + ε), computed in float32, and the factor
/// 1/√l of depth-scaled stacks.

namespace addnorm::doctor {
namespace {

/// The error of divisor² in a fit, from float32's rounding.
double resolution(const DivisorFit& fit) {
  return 2e-6 * fit.divisor * fit.divisor;
}

/// Whether divisor − σ is ε in all rows, where divisor² − σ² differs from row to row.
bool is_outside_the_root(const DivisorFit& fit, double epsilon) {
  return std::abs(fit.eps_in_deviation - epsilon) <= 0.2 * epsilon &&
         fit.deviation_spread < 0.3 * epsilon && resolution(fit) < epsilon * fit.divisor &&
         fit.deviation_spread / fit.eps_in_deviation <
             0.5 * fit.variance_spread / std::abs(fit.eps_in_variance);
}

/// Whether an output that is not scaled by depth is larger than any ε could make it.
bool is_too_large(const DivisorFit& fit) {
  return fit.scale > 1.05;
}

/// Whether k is not 1 in divisor² = k·σ² + ε, for a norm that is not scaled by depth. The fit is
/// not accurate enough in 16 bits, or if ε is added to the deviation.
bool has_wrong_slope(const DivisorFit& fit, const std::string& dtype, double epsilon) {
  constexpr double kMost = 2e-3;
  const bool is_clear = fit.noise < kMost && dtype != "bfloat16" && dtype != "float16";
  return is_clear && fit.slope && std::abs(*fit.slope - 1) > kMost && !is_too_large(fit) &&
         !is_doubled(fit) && !is_outside_the_root(fit, epsilon);
}

/// The slopes that result from a wrong count of the n features. Any other slope is a factor after
/// the norm.
bool is_of_wrong_count(double slope, double n) {
  return std::ranges::any_of(std::array{n / (n - 1), (n - 1) / n, n, 1 / n}, [&](double known) {
    return std::abs(slope / known - 1) < std::min(1e-2, 0.5 * std::abs(known - 1));
  });
}

/// Returns a text such as " = n/(n − 1)" if that is the slope for n features.
std::string slope_text(double slope, double features) {
  if (std::abs(slope * (features - 1) / features - 1) < 1e-3) return " = n/(n − 1)";
  if (std::abs(slope / features - 1) < 1e-2) return " = n";
  return "";
}

/// The largest noise of a sound fit: statistics in float32 leave 1e-7. If a norm's weights are in
/// 16 bits, PyTorch itself rounds the statistics, and the rounding of the output adds noise.
double most_noise(const std::string& dtype) {
  if (dtype == "bfloat16") return 2e-2;
  return dtype == "float16" ? 3e-3 : 1e-5;
}

}  // namespace

void find_wrong_divisors(const Subject& subject, Findings& findings) {
  const io::ProfileModel& model = subject.profile.model;
  const Placements placements = placements_of(model);
  for_all_norms(subject, [&](const ProfileEntry& norm, const NormFit& fit) {
    if (!is_of_rows(fit) || !fit.divisor || expected_scale(placements, norm.site) != 1) return;
    const double declared = model.norm_at(norm.site.layer).eps;
    if (!has_wrong_slope(*fit.divisor, norm.dtype, declared)) return;
    const double slope = *fit.divisor->slope;
    if (!is_of_wrong_count(slope, double(model.d_model))) return;
    findings.push_back(
        {.rule = "variance-divisor",
         .site = norm.site,
         .what = fmt::format("divides by the root of {:.5g}{} times the row's variance", slope,
                             slope_text(slope, double(model.d_model))),
         .because = "the sum of squares divided by n, the number of features, plus ε",
         .fix = "take the mean of the squares: torch.var divides by n − 1 unless you pass "
                "unbiased=False, a sum is not divided",
         .measured = slope,
         .expected = 1});
  });
}

void find_wrong_epsilon(const Subject& subject, Findings& findings) {
  const Placements placements = placements_of(subject.profile.model);
  for_norms(subject, [&](const ProfileEntry& norm, const NormFit& fit) {
    const double declared = subject.profile.model.norm_at(norm.site.layer).eps;
    if (!is_of_rows(fit) || !fit.divisor || expected_scale(placements, norm.site) != 1) return;
    const DivisorFit& divisor = *fit.divisor;
    if (!(declared > 0) || is_too_large(divisor)) return;
    if (divides_by_another_statistic(divisor)) return;
    if (has_wrong_slope(divisor, norm.dtype, declared)) return;
    if (is_outside_the_root(divisor, declared)) {
      findings.push_back(
          {.rule = "epsilon-place",
           .site = norm.site,
           .what = fmt::format(
               "adds ε to the standard deviation: divisor − σ is {:.2e} ± {:.0e} in all rows",
               divisor.eps_in_deviation, divisor.deviation_spread),
           .because = fmt::format("√(σ² + ε) with ε = {:.0e}", declared),
           .fix = "add ε to the variance, under the root",
           .measured = divisor.eps_in_deviation,
           .expected = declared});
      return;
    }
    const double uncertain = std::max(3 * divisor.variance_spread, resolution(divisor));
    const auto is_near = [&](double epsilon) {
      return std::abs(divisor.eps_in_variance - epsilon) <= 0.2 * epsilon + uncertain;
    };
    if (is_near(declared)) return;
    const bool is_design = is_said_of_most(subject, norm, [&](const NormFit& other) {
      return other.declared_eps && is_near(*other.declared_eps);
    });
    findings.push_back({.rule = "epsilon-size",
                        .severity = is_design ? Severity::kNote : Severity::kBroken,
                        .site = norm.site,
                        .what = fmt::format("ε is {:.2e}: the mean of divisor² − σ² over all rows",
                                            divisor.eps_in_variance),
                        .because = fmt::format("ε = {:.0e}, as the network declares", declared),
                        .fix = fmt::format("set ε to {:.0e}", declared),
                        .measured = divisor.eps_in_variance,
                        .expected = declared});
  });
}

/// A norm that divides by √ε does not normalize: it multiplies by a constant.
void note_large_epsilon(const Subject& subject, Findings& findings) {
  for_point(subject, Point::kDeviation, [&](const ProfileEntry& entry) {
    const double epsilon = subject.profile.model.norm_at(entry.site.layer).eps;
    const double variance = entry.rms * entry.rms - epsilon;  // the measured value includes ε
    if (!(variance < epsilon)) return;                        // an unknown ε is 0
    findings.push_back({.rule = "epsilon-large",
                        .severity = Severity::kNote,
                        .site = entry.site,
                        .what = fmt::format("the rows' variance is {:.1e}, less than ε = {:.0e}: "
                                            "the norm mostly scales them by a constant",
                                            std::max(variance, 0.0), epsilon),
                        .because = "a norm normalizes only rows whose variance is large beside ε",
                        .fix = "no fix needed in a trained model; before training, use a smaller ε "
                               "or larger initial weights",
                        .measured = epsilon,
                        .expected = variance});
  });
}

void find_rounded_statistics(const Subject& subject, Findings& findings) {
  for_all_norms(subject, [&](const ProfileEntry& norm, const NormFit& fit) {
    const double most = most_noise(norm.dtype);
    if (!is_of_rows(fit) || !fit.divisor || !(fit.divisor->noise > most)) return;
    if (divides_by_another_statistic(*fit.divisor)) return;
    const double noise = fit.divisor->noise;
    findings.push_back(
        {.rule = "rounded-statistics",
         .site = norm.site,
         .what = fmt::format(
             "rows of the same standard deviation are divided by numbers that differ by {:.1e}",
             noise / 2),
         .because = fmt::format("at most {:.0e}: statistics in float32 agree to 1e-7", most / 2),
         .fix = "compute mean, variance and their root in float32 whatever the row's type",
         .measured = noise,
         .expected = 0});
  });
}

void find_lost_depth_scale(const Subject& subject, Findings& findings) {
  const Placements placements = placements_of(subject.profile.model);
  for_norms(subject, [&](const ProfileEntry& norm, const NormFit& fit) {
    const double expected = expected_scale(placements, norm.site);
    if (expected == 1 || !fit.divisor) return;
    const double scale = fit.divisor->scale;
    if (std::abs(scale / expected - 1) < 0.05) return;
    findings.push_back(
        {.rule = "depth-scale",
         .site = norm.site,
         .what = fmt::format("its output is {:.3g} times the normalized row", scale),
         .because =
             fmt::format("1/√{} = {:.3g}{}", norm.site.layer + 1, expected, by_placement(subject)),
         .fix = "scale the norm's output by 1/√l; recompute buffers that checkpoints do not store",
         .measured = scale,
         .expected = expected});
  });
}

}  // namespace addnorm::doctor
