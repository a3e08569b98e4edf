#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "report/numbers.h"

/// A chart, to be drawn as an image (svg.h) or on a terminal (plot.h).

namespace addnorm::report {

using lab::Axis;
using lab::Chart;
using lab::HeatMap;
using lab::Look;
using lab::Series;

/// Throws an Error that names the axis or series that makes no chart.
void check(const Chart& chart);

/// Return the interval that an axis shows: the ends that it sets; else the data, on y with a
/// margin. An axis of y has a least span, so that the noise of nearly equal values stays small.
Range x_range(const Chart& chart);
Range y_range(const Chart& chart);

/// At the names, or at the data where they are few, or about `most` at round numbers.
std::vector<Tick> x_ticks(const Chart& chart, const Range& range, int most);

/// Where a curve is finite for the last time before it ends in infinities or NaN.
std::optional<std::size_t> breaks_at(const Series& series);

/// Is it a number that has no place because the scale is logarithmic?
bool is_zero_of_log(double value, const Axis& axis);

/// How the values of all maps become colours: in levels from −kHeatLevels to kHeatLevels.
struct HeatScale {
  double most = 0;  ///< the largest of all magnitudes, which has the last level
  bool has_negative = false;
  bool has_broken = false;  ///< infinities or NaN

  int level(double value) const;
};
constexpr int kHeatLevels = 20;
constexpr int kPositiveHeat = 0, kNegativeHeat = 1;  // the colours of series that levels shade
HeatScale heat_scale(const Chart& chart);
/// How many columns there are at most.
std::size_t columns_of(const Chart& chart);
std::size_t rows_of(const Chart& chart);
/// The name of a row of maps (on chart.y), or a column (on chart.x).
std::string place_name(const Axis& axis, std::size_t place);

/// Is there such a curve, or such a value?
bool has_break(const Chart& chart);
bool has_zero_of_log(const Chart& chart);

}  // namespace addnorm::report
