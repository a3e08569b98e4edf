#pragma once

#include <string>

#include "report/chart.h"

namespace addnorm::report {

/// The chart for a terminal of this width, in full colour and UTF-8: a mark at each point that was
/// measured, on the shade of what is predicted. Curves differ by their marks; where marks would
/// hide each other they take turns, and of a long curve only some are drawn. Heat maps are shades.
std::string draw_plot(const Chart& chart, int width);

}  // namespace addnorm::report
