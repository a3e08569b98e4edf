#pragma once

#include <functional>

#include "doctor/placements.h"
#include "doctor/places.h"

/// Functions of the fit of a norm's output that several rules of norms share.

namespace addnorm::doctor {

using probe::DivisorFit;
using probe::NormFit;

/// Returns whether the output is Γ ⊙ (row − centre)/divisor + β. Otherwise the other numbers of the
/// fit are meaningless.
bool is_of_rows(const NormFit& fit);

/// Returns whether a row's deviation leaves so much of the divisor² unexplained that another
/// statistic must determine it. Rounding the statistics to bfloat16 leaves at most 2⁻⁷.
bool divides_by_another_statistic(const DivisorFit& divisor);

/// Returns the factor of a norm's output in its placement: 1/√l if that scales by depth, else 1.
double expected_scale(const Placements& placements, const Site& site);

/// Returns the RMS of γ, or of 1 + γ if that is the factor.
double gain_rms(const Subject& subject, const ProfileEntry& gamma);

/// Returns whether the output of a norm that is not scaled by depth is twice too large, even for
/// rows that are small compared with ε.
bool is_doubled(const DivisorFit& fit);

/// Returns whether `says` holds for this norm and for half of the norms at the same place in other
/// layers of its stack. The network then has two kinds of norms on purpose.
bool is_said_of_most(const Subject& subject, const ProfileEntry& norm,
                     const std::function<bool(const NormFit&)>& says);

}  // namespace addnorm::doctor
