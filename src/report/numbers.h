#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/chart.h"

namespace addnorm::report {

using lab::AxisScale;

/// All values from low to high; empty at first.
struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  bool empty() const { return low > high; }
};

/// Does the value have a place on the scale: is it finite, and above zero where that is a log
/// scale?
bool has_place(double value, AxisScale scale);

/// The range, widened to hold those of the values that have a place on the scale.
Range widen(Range range, std::span<const double> values, AxisScale scale);

/// Where the value lies in the range: 0 at its low end, 1 at its high end. On a log scale what is
/// not above zero lies at minus infinity.
double place(double value, const Range& range, AxisScale scale);

/// A place on an axis; the label is empty where the axis has no room for one.
struct Tick {
  double value = 0;
  std::string label;
};

/// Ticks at round numbers inside the range, about `most` of them with a label: steps of 1, 2 or 5,
/// or decades.
std::vector<Tick> ticks(const Range& range, AxisScale scale, int most);

/// "0.0123", "1.23e-9", "nan": about `digits` significant digits.
std::string format_number(double value, int digits = 3);

/// "3,152,384"
std::string format_count(std::size_t count);

/// "1 layer", "3,000 steps"
std::string format_count(std::size_t count, std::string_view noun);

/// "2.314 ± 0.021": the spread with two digits, the mean to the same place.
std::string format_spread(double mean, double spread);

}  // namespace addnorm::report
