#pragma once

#include <string>
#include <string_view>

namespace addnorm {

/// Series have this many colours: the variables --c0, --c1, … of theme_css.
constexpr int kSeriesColors = 8;

/// The colours of charts and pages as CSS variables of `selector`, light and dark: --paper, --ink,
/// --muted, --grid, --good, --bad and those of the series.
std::string theme_css(std::string_view selector);

enum class Ground { kLight, kDark };

/// The colours on one ground, as declarations of CSS.
std::string_view theme_variables(Ground ground);

}  // namespace addnorm
