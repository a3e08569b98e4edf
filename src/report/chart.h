#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "report/numbers.h"

/// A chart that can be drawn as an image (svg.h) or on a terminal (plot.h).

namespace addnorm::report {

using lab::Axis;
using lab::Chart;
using lab::HeatMap;
using lab::Look;
using lab::Series;

/// Throws an Error that names an invalid axis or series.
void check(const Chart& chart);

/// Return the interval that an axis shows: its own ends, else those of the data, with a margin on
/// y. An axis of y has a least span, so that the noise of nearly equal values stays small.
Range x_range(const Chart& chart);
Range y_range(const Chart& chart);

/// Returns ticks at the names, at the data if they are few, or about `most` at round numbers.
std::vector<Tick> x_ticks(const Chart& chart, const Range& range, int most);

/// Returns the last index with a finite value, if the curve ends in infinities or NaN.
std::optional<std::size_t> breaks_at(const Series& series);

/// Whether a number has no place because the scale is logarithmic.
bool is_zero_of_log(double value, const Axis& axis);

/// The conversion of all maps' values to colours: levels from −kHeatLevels to kHeatLevels.
struct HeatScale {
  double most = 0;  ///< the largest magnitude, which has the last level
  bool has_negative = false;
  bool has_broken = false;  ///< whether there are infinities or NaN

  int level(double value) const;
};
constexpr int kHeatLevels = 20;
constexpr int kPositiveHeat = 0, kNegativeHeat = 1;  // the colours of series that levels shade
HeatScale heat_scale(const Chart& chart);
/// Returns the largest number of columns.
std::size_t columns_of(const Chart& chart);
std::size_t rows_of(const Chart& chart);
/// Returns the name of a row of maps (on chart.y), or of a column (on chart.x).
std::string place_name(const Axis& axis, std::size_t place);

/// Whether there is such a curve or value.
bool has_break(const Chart& chart);
bool has_zero_of_log(const Chart& chart);

}  // namespace addnorm::report
