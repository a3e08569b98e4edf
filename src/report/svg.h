#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/numbers.h"

namespace addnorm {

/// How a series looks. A prediction is a wide pale stroke, on which a measured line can lie.
enum class Look { kSolid, kDashed, kPrediction };

/// One curve, one band from low to high, or a curve in its band.
struct Series {
  std::string name;
  std::vector<double> x;
  std::vector<double> y = {};    ///< One for each x, or none. What has no place is a gap.
  std::vector<double> low = {};  ///< The band: one for each x, or none. NaN is a gap.
  std::vector<double> high = {};
  Look look = Look::kSolid;
  std::optional<int> color = {};  ///< Of the theme, with its marker; unset: the place in the chart.
};

struct Axis {
  std::string label;
  AxisScale scale = AxisScale::kLinear;
  std::optional<double> low = {};   ///< Where the axis begins; unset: where the data do.
  std::optional<double> high = {};  ///< Where it ends; what lies beyond is cut off.
};

/// A line chart. What says how it reads (what a band is) belongs in its caption.
struct Chart {
  std::string title;
  Axis x;
  Axis y;
  std::vector<Series> series;
};

/// Widths in CSS pixels that suit a page and a phone: the text has the same size on both.
constexpr int kWideChart = 760;
constexpr int kNarrowChart = 360;

/// The chart as an SVG element that stands alone or in a page, on light paper or dark, with a
/// description in words. A curve that ends because its values are no longer finite ends in a cross;
/// zeros on a log scale are triangles on its lower edge.
std::string to_svg(const Chart& chart, int width = kWideChart);

}  // namespace addnorm
