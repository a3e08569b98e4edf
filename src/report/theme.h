#pragma once

#include <string>
#include <string_view>

namespace addnorm::report {

/// Series have this many colours: the variables --c0, --c1, … of theme_css.
constexpr int kSeriesColors = 8;

/// The colours of charts and pages as CSS variables of `selector`, light and dark: --paper, --ink,
/// --muted, --grid, --good, --bad and those of the series. Within an element with data-theme they
/// are what that says, elsewhere what the system does.
std::string theme_css(std::string_view selector);

}  // namespace addnorm::report
