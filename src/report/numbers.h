#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/message.h"
#include "lab/chart.h"

namespace addnorm::report {

using lab::AxisScale;

/// All values from low to high; initially empty.
struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  bool empty() const { return low > high; }
};

/// Whether the value has a place on the scale: it is finite, and above zero on a log scale.
bool has_place(double value, AxisScale scale);

/// Returns the range, extended to the values that have a place on the scale.
Range widen(Range range, std::span<const double> values, AxisScale scale);

/// Returns the value's place in the range: 0 at its low end, 1 at its high end. On a log scale
/// values ≤ 0 are at minus infinity.
double place(double value, const Range& range, AxisScale scale);

/// A place on an axis; the label is empty if the axis has no room for it.
struct Tick {
  double value = 0;
  std::string label;
};

/// Returns ticks at round numbers inside the range, about `most` of them with a label. Steps are 1,
/// 2 or 5 times a power of ten, or decades.
std::vector<Tick> ticks(const Range& range, AxisScale scale, int most);

/// Returns "0.0123", "1.23e-9", "nan": about `digits` significant digits.
std::string format_number(double value, int digits = 3);
Message to_message(double value, int digits = 3);

/// Returns "3,152,384".
std::string format_count(std::size_t count);

/// Returns "1 layer", "3,000 steps".
std::string format_count(std::size_t count, std::string_view noun);

/// Returns "2.314 ± 0.021": the spread with two digits, the mean with the same precision.
std::string format_spread(double mean, double spread);

}  // namespace addnorm::report
