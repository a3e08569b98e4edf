#pragma once

#include <string>
#include <string_view>

namespace addnorm::report {

/// The number of colours of series: the variables --c0, --c1, … of theme_css.
constexpr int kSeriesColors = 8;

/// Returns the colours of charts and pages as CSS variables of `selector`, light and dark: --paper,
/// --ink, --muted, --grid, --good, --bad and those of the series. The system chooses between light
/// and dark.
std::string theme_css(std::string_view selector);

}  // namespace addnorm::report
