#pragma once

#include <string>
#include <vector>

#include "report/chart.h"

namespace addnorm::report {

/// Widths in CSS pixels that suit a page and a phone: the text has the same size on both.
constexpr int kWideChart = 760;
constexpr int kNarrowChart = 360;

/// The chart as an SVG element that stands alone or in a page, on light paper or dark, with a
/// description in words. A curve that ends because its values are no longer finite ends in a cross;
/// zeros on a log scale are triangles on its lower edge. Heat maps stand side by side, or one above
/// the other where the image is narrow; a place tells its value to who points at it.
std::string to_svg(const Chart& chart, int width = kWideChart);

/// Charts one above the other, with what explains them where there is no page around them.
struct ChartSheet {
  struct Part {
    Chart chart;
    std::string caption;
  };
  std::string title;
  std::vector<std::string> lead;  ///< paragraphs
  std::vector<Part> parts;
};

/// The sheet as an SVG element that stands alone, as a chart does.
std::string to_svg(const ChartSheet& sheet, int width = kWideChart);

}  // namespace addnorm::report
