#pragma once

#include <string>

#include "report/chart.h"

namespace addnorm::report {

/// A chart of heat maps for a terminal of this width: shades of colour that differ without colour
/// too. Of a map with more rows or columns than there is room for, some are left out.
std::string draw_heat_plot(const Chart& chart, int width);

}  // namespace addnorm::report
