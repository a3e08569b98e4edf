#pragma once

#include <functional>

#include "doctor/places.h"

/// Questions about the fit of a norm's output that several rules of norms share.

namespace addnorm::doctor {

using probe::DivisorFit;
using probe::NormFit;

/// Whether the output is Γ ⊙ (row − centre)/divisor + β. Otherwise the other numbers of the fit
/// mean nothing.
bool is_of_rows(const NormFit& fit);

/// The factor of a norm's output by its placement: 1/√l where that scales by depth, else 1.
double expected_scale(const Placements& placements, const Site& site);

/// Whether the output of a norm that is not scaled by depth is twice as large as it should be, also
/// of rows that are small beside ε.
bool is_doubled(const DivisorFit& fit);

/// Whether `says` holds for this norm, and for half of the norms at its place in other layers of
/// its stack. Then a network has norms of two kinds on purpose.
bool is_said_of_most(const Subject& subject, const ProfileEntry& norm,
                     const std::function<bool(const NormFit&)>& says);

}  // namespace addnorm::doctor
