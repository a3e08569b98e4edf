#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "report/numbers.h"

/// A line chart, to be drawn as an image (svg.h) or on a terminal (plot.h).

namespace addnorm::report {

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
  std::optional<double> low = {};       ///< Where the axis begins; unset: where the data do.
  std::optional<double> high = {};      ///< Where it ends; what lies beyond is cut off.
  std::vector<std::string> names = {};  ///< Of x only: of the places 0, 1, … instead of numbers.
};

/// A line chart. What says how it reads (what a band is) belongs in its caption.
struct Chart {
  std::string title;
  Axis x;
  Axis y;
  std::vector<Series> series;
};

/// Throws an Error that names the axis or series that makes no chart.
void check(const Chart& chart);

/// What the axes show: the ends that they set; else the data, on y with a margin.
Range x_range(const Chart& chart);
Range y_range(const Chart& chart);

/// At the names, or at the data where they are few, or about `most` at round numbers.
std::vector<Tick> x_ticks(const Chart& chart, const Range& range, int most);

/// Where a curve is finite for the last time before it ends in infinities or NaN.
std::optional<std::size_t> breaks_at(const Series& series);

/// Is it a number that has no place because the scale is logarithmic?
bool is_zero_of_log(double value, const Axis& axis);

/// Is there such a curve, or such a value?
bool has_break(const Chart& chart);
bool has_zero_of_log(const Chart& chart);

}  // namespace addnorm::report
