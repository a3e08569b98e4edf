#include "report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/require.h"

namespace addnorm::report {
namespace {

constexpr double kMargin = 0.04;     // of the y axis, below and above the data
constexpr double kLargest = 1e300;   // leaves room for the margin
constexpr double kRounding = 1e-9;   // closer values count as equal
constexpr double kLeastSpan = 0.05;  // of the y axis, as a share of the values' scale

/// Returns the least span of an axis for these values. Smaller differences along y are noise, which
/// the chart would exaggerate.
double least_span(const Axis& axis, const Range& range, bool is_y) {
  const double largest = std::max(std::abs(range.low), std::abs(range.high));
  if (range.high - range.low <= kRounding * largest) return largest > 0 ? largest : 1;
  if (!is_y) return 0;
  return kLeastSpan * (axis.bounds ? axis.bounds->back() - axis.bounds->front() : largest);
}

/// Returns the range with at least this span: with the axis' own ends, else with the values in its
/// middle, unless that includes impossible values.
Range widened(const Axis& axis, const Range& range, double span) {
  const double missing = span - (range.high - range.low);
  if (missing <= 0 || (axis.low && axis.high)) return range;
  if (axis.low) return {range.low, range.low + span};
  if (axis.high) return {range.high - span, range.high};
  const double least = axis.bounds ? axis.bounds->front() : range.low >= 0 ? 0 : -HUGE_VAL;
  const double most = axis.bounds ? axis.bounds->back() : HUGE_VAL;
  double low = std::max(range.low - missing / 2, std::min(least, range.low));
  low = std::min(low, std::max(most, range.high) - span);
  return {low, low + span};
}

/// Returns the interval that the axis shows for data in `range`: its own ends; else the data, along
/// y with a margin.
Range shown(const Axis& axis, Range range, bool is_y) {
  const bool log = axis.scale == AxisScale::kLog;
  if (range.empty()) range = {1, 1};
  const double least = log ? 1 / kLargest : -kLargest;
  range = {std::clamp(range.low, least, kLargest), std::clamp(range.high, least, kLargest)};
  if (axis.low) range = {*axis.low, std::max(range.high, *axis.low)};
  if (axis.high) range = {std::min(range.low, *axis.high), *axis.high};
  range = widened(axis, range, least_span(axis, range, is_y));
  const double margin = is_y ? kMargin : 0;
  const double part = log ? std::pow(range.high, margin) / std::pow(range.low, margin)
                          : margin * (range.high - range.low);
  if (!axis.high) range.high = log ? range.high * part : range.high + part;
  if (!axis.low) {
    const double below = log ? range.low / part : range.low - part;
    range.low = range.low >= 0 ? std::max(0.0, below) : below;
  }
  return range;
}

}  // namespace

void check(const Chart& chart) {
  for (const Axis* axis : {&chart.x, &chart.y}) {
    const double least = axis->scale == AxisScale::kLog ? 0 : -HUGE_VAL;
    require(axis->low.value_or(HUGE_VAL) > least && axis->high.value_or(HUGE_VAL) > least &&
                axis->low.value_or(-HUGE_VAL) < axis->high.value_or(HUGE_VAL),
            "the axis '{}' of chart '{}' has an end out of place", axis->label, chart.title);
  }
  require(chart.maps.empty() || chart.series.empty(), "chart '{}': it has curves and heat maps",
          chart.title);
  for (const Series& s : chart.series) {
    const std::size_t n = s.x.size();
    require((s.y.size() == n || s.y.empty()) && s.low.size() == s.high.size() &&
                (s.low.size() == n || s.low.empty()),
            "series '{}': {} x, {} y, a band of {} and {}", s.name, n, s.y.size(), s.low.size(),
            s.high.size());
    require(std::all_of(s.x.begin(), s.x.end(), [](double x) { return std::isfinite(x); }),
            "series '{}': its x are not all finite", s.name);
  }
}

Range x_range(const Chart& chart) {
  if (const std::size_t n = chart.x.names.size(); n > 0)
    return {-0.5, static_cast<double>(n) - 0.5};
  Range range;
  for (const Series& s : chart.series) range = widen(range, s.x, chart.x.scale);
  return shown(chart.x, range, false);
}

Range y_range(const Chart& chart) {
  Range range;
  for (const Series& s : chart.series) {
    for (const auto* values : {&s.y, &s.low, &s.high}) range = widen(range, *values, chart.y.scale);
  }
  return shown(chart.y, range, true);
}

namespace {

/// Returns ticks at the data, if there are few and they are not too close; else none.
std::vector<Tick> data_ticks(const Chart& chart, const Range& range, int most) {
  constexpr std::size_t kFew = 6;
  std::set<double> places;
  for (const Series& s : chart.series) places.insert(s.x.begin(), s.x.end());
  if (places.size() < 3 || places.size() > kFew) return {};
  auto at = [&](double x) { return chart.x.scale == AxisScale::kLog ? std::log(x) : x; };
  const double apart = (at(range.high) - at(range.low)) / (1.5 * most);
  std::vector<Tick> ticks;
  for (const double x : places) {
    if (!has_place(x, chart.x.scale)) return {};
    if (!ticks.empty() && at(x) - at(ticks.back().value) < apart) return {};
    ticks.push_back({x, fmt::format("{:g}", x)});
  }
  return ticks;
}

}  // namespace

std::vector<Tick> x_ticks(const Chart& chart, const Range& range, int most) {
  if (chart.x.names.empty()) {
    const std::vector<Tick> of_data = data_ticks(chart, range, most);
    return of_data.empty() ? ticks(range, chart.x.scale, most) : of_data;
  }
  std::vector<Tick> named;
  for (const std::string& name : chart.x.names) {
    named.push_back({static_cast<double>(named.size()), name});
  }
  return named;
}

std::optional<std::size_t> breaks_at(const Series& s) {
  const auto finite =
      std::find_if(s.y.rbegin(), s.y.rend(), [](double y) { return std::isfinite(y); });
  if (finite == s.y.rbegin() || finite == s.y.rend()) return {};
  return s.y.rend() - finite - 1;
}

bool is_zero_of_log(double value, const Axis& axis) {
  return axis.scale == AxisScale::kLog && std::isfinite(value) && value <= 0;
}

bool has_break(const Chart& chart) {
  return std::ranges::any_of(chart.series, [](const Series& s) { return !!breaks_at(s); });
}

bool has_zero_of_log(const Chart& chart) {
  return std::ranges::any_of(chart.series, [&](const Series& s) {
    return std::ranges::any_of(s.y, [&](double y) { return is_zero_of_log(y, chart.y); });
  });
}

int HeatScale::level(double value) const {
  return most > 0 ? static_cast<int>(std::lround(kHeatLevels * value / most)) : 0;
}

HeatScale heat_scale(const Chart& chart) {
  HeatScale scale;
  double lowest = 0;
  for (const HeatMap& map : chart.maps) {
    for (const std::vector<double>& row : map.rows) {
      for (const double value : row) {
        if (!std::isfinite(value)) {
          scale.has_broken = true;
          continue;
        }
        scale.most = std::max(scale.most, std::abs(value));
        lowest = std::min(lowest, value);
      }
    }
  }
  scale.has_negative = scale.level(lowest) < 0;  // more than rounding
  return scale;
}

std::size_t columns_of(const Chart& chart) {
  std::size_t most = 0;
  for (const HeatMap& map : chart.maps) {
    for (const std::vector<double>& row : map.rows) most = std::max(most, row.size());
  }
  return most;
}

std::size_t rows_of(const Chart& chart) {
  std::size_t most = 0;
  for (const HeatMap& map : chart.maps) most = std::max(most, map.rows.size());
  return most;
}

std::string place_name(const Axis& axis, std::size_t place) {
  return place < axis.names.size() ? axis.names[place] : std::to_string(place);
}

}  // namespace addnorm::report
