#pragma once

#include <string>
#include <vector>

#include "report/chart.h"

namespace addnorm::report {

/// Widths in CSS pixels for a page and a phone; the text has the same size on both.
constexpr int kWideChart = 760;
constexpr int kNarrowChart = 360;

/// Returns the chart as an SVG element, for a file or a page, on light or dark paper, with a
/// description in words. A curve that ends because its values are no longer finite ends in a cross.
/// Zeros on a log scale are triangles on the lower edge. Heat maps are side by side, or one above
/// the other in a narrow image; a cell shows its value under the pointer.
std::string to_svg(const Chart& chart, int width = kWideChart);

/// Charts one above the other, with explanations for a file without a page.
struct ChartSheet {
  struct Part {
    Chart chart;
    std::string caption;
  };
  std::string title;
  std::vector<std::string> lead;  ///< paragraphs
  std::vector<Part> parts;
};

/// Returns the sheet as an SVG element for a file.
std::string to_svg(const ChartSheet& sheet, int width = kWideChart);

}  // namespace addnorm::report
