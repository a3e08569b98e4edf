#pragma once

#include <string>

#include "report/chart.h"

namespace addnorm::report {

/// Draws the chart for a terminal of this width, in full colour and UTF-8: a mark at each measured
/// point, on the shade of the prediction. Curves differ by their marks. Where marks would overlap
/// they alternate, and long curves have fewer marks. Heat maps are shades.
std::string draw_plot(const Chart& chart, int width);

}  // namespace addnorm::report
