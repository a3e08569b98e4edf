#include "report/bars.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/require.h"
#include "report/text.h"

namespace addnorm::report {
namespace {

constexpr int kMostBarColumns = 100;  // longer bars are no easier to compare
constexpr int kBarDigits = 4;

constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
constexpr const char* kHeights[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

std::string rightward(int eighths) {
  return repeat("█", eighths / 8) + kEighths[eighths % 8];
}

// There are no block characters filled from the right. So the complementary ones are drawn, with
// foreground and background exchanged.
std::string leftward(int eighths) {
  const int part = eighths % 8;
  const std::string tip = part == 0 ? "" : fmt::format("\x1b[7m{}\x1b[27m", kEighths[8 - part]);
  return tip + repeat("█", eighths / 8);
}

// The columns on both sides of the axis, and the number of eighths of a column in one unit.
struct Layout {
  int left = 0;
  int right = 0;
  double eighths = 0;
};

Layout lay_out(const Range& range, int columns) {
  const double span = range.high - range.low;
  if (span == 0) return {0, columns, 0};
  const int left = static_cast<int>(std::lround(columns * -range.low / span));
  Layout layout;
  layout.left = std::clamp(left, range.low < 0 ? 1 : 0, range.high > 0 ? columns - 1 : columns);
  layout.right = columns - layout.left;
  // The side with less room determines the unit of both.
  const double left_unit = layout.left > 0 ? -range.low / layout.left : 0;
  const double right_unit = layout.right > 0 ? range.high / layout.right : 0;
  layout.eighths = 8 / std::max(left_unit, right_unit);
  return layout;
}

std::string draw_bar(double value, const Layout& layout) {
  const std::string axis = paint(Ink::kFaint, "│");
  if (std::isnan(value)) value = 0;
  const int side = value < 0 ? layout.left : layout.right;
  // In this order infinity times zero eighths, which is NaN, becomes a full bar.
  const int length =
      static_cast<int>(std::lround(std::min(8.0 * side, std::abs(value) * layout.eighths)));
  const Ink ink = std::isinf(value) ? Ink::kBad : value < 0 ? Ink::kNegative : Ink::kPositive;
  if (value >= 0) return repeat(" ", layout.left) + axis + paint(ink, rightward(length));
  return repeat(" ", layout.left - (length + 7) / 8) + paint(ink, leftward(length)) + axis;
}

// Formats the numbers with the same precision, but shows no nonzero number as 0.000.
std::vector<std::string> format_column(std::span<const double> values, const Range& range) {
  const double largest = std::max(-range.low, range.high);
  const int exponent = largest > 0 ? static_cast<int>(std::floor(std::log10(largest))) : 0;
  const int decimals = std::max(0, kBarDigits - 1 - exponent);
  std::vector<std::string> column;
  for (double value : values) {
    const bool fits = value == 0 || std::abs(value) >= 0.5 * std::pow(10, -decimals);
    const bool plain = std::isfinite(value) && fits && exponent >= -3 && exponent < 6;
    column.push_back(plain ? fmt::format("{:.{}f}", value, decimals)
                           : format_number(value, fits ? kBarDigits : 1));
  }
  return column;
}

int widest(std::span<const std::string> texts) {
  int width = 0;
  for (const std::string& text : texts) width = std::max(width, display_width(text));
  return width;
}

// The character of a value that has no place on the scale.
const char* without_place(double value) {
  if (std::isnan(value)) return "?";
  if (std::isinf(value) && value > 0) return "∞";
  return value == 0 ? "0" : "-";
}

Range sparkline_range(std::span<const double> values, AxisScale scale, Range range) {
  if (scale == AxisScale::kLinear) range = widen(range, std::vector{0.0}, scale);
  range = widen(range, values, scale);
  if (scale == AxisScale::kLinear || range.empty()) return range;
  const double middle = std::sqrt(range.low * range.high);
  const double half = std::sqrt(10);
  return widen(range, std::vector{middle / half, middle * half}, scale);
}

}  // namespace

std::string draw_bars(const Bars& bars, int width) {
  require(bars.labels.size() == bars.values.size(), "{} labels for {} bars", bars.labels.size(),
          bars.values.size());
  const Range range = widen(widen(bars.range, std::vector{0.0}, AxisScale::kLinear), bars.values,
                            AxisScale::kLinear);
  const std::vector<std::string> numbers = format_column(bars.values, range);
  const int label_width = widest(bars.labels);
  const int number_width = widest(numbers);
  const int columns = std::min(width, kMostBarColumns) - label_width - number_width - 4;
  const Layout layout = lay_out(range, std::max(columns, 4));
  std::string out;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double value = bars.values[i];
    out += fmt::format("{}  {} {}\n", pad(bars.labels[i], label_width, Align::kLeft),
                       paint(std::isfinite(value) ? Ink::kPlain : Ink::kBad,
                             pad(numbers[i], number_width, Align::kRight)),
                       draw_bar(value, layout));
  }
  return out;
}

std::string sparkline(std::span<const double> values, AxisScale scale, const Range& range) {
  const Range whole = sparkline_range(values, scale, range);
  std::string out;
  for (double value : values) {
    if (!has_place(value, scale)) {
      out += without_place(value);
    } else {
      // If all values are zero on a linear scale, the range is a point and place() is NaN.
      const double height = whole.high > whole.low ? place(value, whole, scale) : 0;
      out += kHeights[std::min(7, static_cast<int>(8 * height))];
    }
  }
  return out;
}

}  // namespace addnorm::report
