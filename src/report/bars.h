#pragma once

#include <span>
#include <string>

#include "report/numbers.h"

namespace addnorm::report {

/// A vector of numbers, to be drawn as horizontal bars around zero.
struct Bars {
  std::span<const double> values;
  std::span<const std::string> labels;  ///< One for each value.
  Range range =
      {};  ///< What the whole width stands for, at least: one range makes drawings compare.
};

/// One line for each value: label, number, bar. What is infinite or NaN is in Ink::kBad.
std::string draw_bars(const Bars& bars, int width);

/// One character for each value, its height the value's place on a scale that holds `range` and the
/// values; a linear scale also holds zero, a log scale at least one decade. What has no place shows
/// as ? (NaN), ∞, 0, or - (negative on a log scale, or minus infinity).
std::string sparkline(std::span<const double> values, AxisScale scale, const Range& range = {});

}  // namespace addnorm::report
