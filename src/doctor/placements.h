#pragma once

#include <optional>
#include <string>
#include <vector>

#include "addnorm/nn/placement.h"
#include "doctor/subject.h"

/// The placements that a profile names.

namespace addnorm::doctor {

/// The placement of each layer, if the profile names a known one.
using Placements = std::optional<std::vector<BlockPlacement>>;
Placements placements_of(const io::ProfileModel& model);

/// Returns ", by the placement pre"; "" if the profile names none.
std::string by_placement(const Subject& subject);

/// Returns the placement of the sublayer at a site; nullptr if unknown.
const Placement* placement_at(const Placements& placements, const Site& site);

/// Returns the placement of all sublayers, if they have the same one.
const Placement* only_placement(const Placements& placements);

/// Returns skip or gain if it is a constant: learned factors may have any value.
std::optional<double> constant_factor(const ResidualFactor& factor, Depth depth);

}  // namespace addnorm::doctor
