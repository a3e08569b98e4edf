#pragma once

#include <string>

#include "report/chart.h"

namespace addnorm::report {

/// Draws a chart of heat maps for a terminal of this width. The shades of colour differ without
/// colour too. If a map has too many rows or columns, some are omitted.
std::string draw_heat_plot(const Chart& chart, int width);

}  // namespace addnorm::report
