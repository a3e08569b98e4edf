#pragma once

#include <span>
#include <string>

#include "report/numbers.h"

namespace addnorm::report {

/// A vector of numbers, drawn as horizontal bars around zero.
struct Bars {
  std::span<const double> values;
  std::span<const std::string> labels;  ///< One for each value.
  Range range =
      {};  ///< The least range of the whole width; a common range makes drawings comparable.
};

/// Returns one line for each value: label, number, bar. Infinite values and NaN are in Ink::kBad.
std::string draw_bars(const Bars& bars, int width);

/// Returns one character for each value. Its height is the value's place on a scale that holds
/// `range` and the values; a linear scale also holds zero, a log scale at least one decade. Values
/// without a place are ? (NaN), ∞, 0, or - (negative on a log scale, or minus infinity).
std::string sparkline(std::span<const double> values, AxisScale scale, const Range& range = {});

}  // namespace addnorm::report
