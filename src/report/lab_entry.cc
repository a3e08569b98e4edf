#include <algorithm>
#include <cmath>

#include "base/require.h"
#include "io/json.h"
#include "report/lab_report.h"

namespace addnorm::report {
namespace {

using io::Json;

/// Returns the value of the key, which must be a T.
template <typename T>
T get(const Json& object, const char* key) {
  require(object.is_object() && object.contains(key) && io::fits<T>(object[key]),
          "\"{}\" is missing or has the wrong type", key);
  return object[key].get<T>();
}

const Json& get_array(const Json& object, const char* key) {
  require(object.is_object() && object.contains(key) && object[key].is_array(),
          "\"{}\" is not an array", key);
  return object[key];
}

/// Returns a number; null, which represents one that is not finite, becomes `value`.
double number_or(double value, const Json& object, const char* key) {
  const bool is_null = object.is_object() && object.contains(key) && object[key].is_null();
  return is_null ? value : get<double>(object, key);
}

/// Reads numbers; null represents one that is not finite.
std::vector<double> read_numbers(const Json& array) {
  require(array.is_array(), "{} is not an array of numbers", array.dump());
  std::vector<double> numbers;
  for (const Json& value : array) {
    require(value.is_number() || value.is_null(), "{} is not a number", value.dump());
    numbers.push_back(value.is_null() ? std::nan("") : value.get<double>());
  }
  return numbers;
}

Axis read_axis(const Json& json) {
  Axis axis{
      .label = get<std::string>(json, "label"),
      .scale = get<std::string>(json, "scale") == "log" ? AxisScale::kLog : AxisScale::kLinear};
  if (json.contains("low")) axis.low = get<double>(json, "low");
  if (json.contains("high")) axis.high = get<double>(json, "high");
  if (json.contains("bounds")) {
    const auto bounds = get<std::vector<double>>(json, "bounds");
    require(bounds.size() == 2 && bounds[0] < bounds[1],
            "\"bounds\" are not two increasing numbers");
    axis.bounds = {bounds[0], bounds[1]};
  }
  if (json.contains("names")) axis.names = get<std::vector<std::string>>(json, "names");
  return axis;
}

/// A band with one finite edge extends to infinity on the other side.
void open_ends(Series& curve) {
  for (std::size_t i = 0; i < std::min(curve.low.size(), curve.high.size()); ++i) {
    if (std::isnan(curve.low[i]) && std::isfinite(curve.high[i])) curve.low[i] = -HUGE_VAL;
    if (std::isnan(curve.high[i]) && std::isfinite(curve.low[i])) curve.high[i] = HUGE_VAL;
  }
}

std::vector<Series> read_curves(const Json& panel, const char* key) {
  std::vector<Series> curves;
  for (const Json& curve : get_array(panel, key)) {
    curves.push_back({.name = get<std::string>(curve, "name"),
                      .x = read_numbers(get_array(curve, "x")),
                      .y = read_numbers(get_array(curve, "y")),
                      .low = read_numbers(get_array(curve, "low")),
                      .high = read_numbers(get_array(curve, "high"))});
    open_ends(curves.back());
  }
  return curves;
}

lab::Panel read_panel(const Json& json) {
  lab::Panel panel{.title = get<std::string>(json, "title"),
                   .x = read_axis(json.value("x", Json())),
                   .y = read_axis(json.value("y", Json())),
                   .caption = get<std::string>(json, "caption"),
                   .measured = read_curves(json, "measured"),
                   .predicted = read_curves(json, "predicted")};
  if (!json.contains("maps")) return panel;
  panel.value = get<std::string>(json, "value");
  for (const Json& map : get_array(json, "maps")) {
    panel.maps.push_back({.name = get<std::string>(map, "name")});
    for (const Json& row : get_array(map, "rows")) {
      panel.maps.back().rows.push_back(read_numbers(row));
    }
  }
  return panel;
}

lab::Check read_check(const Json& json) {
  return {.claim = get<std::string>(json, "claim"),
          .source = get<std::string>(json, "source"),
          .measured = number_or(std::nan(""), json, "measured"),
          .low = number_or(-HUGE_VAL, json, "low"),
          .high = number_or(HUGE_VAL, json, "high"),
          .detail = get<std::string>(json, "detail"),
          .unmet = get<std::string>(json, "unmet")};
}

}  // namespace

LabEntry read_lab_json(std::string_view text, const std::string& file) {
  const Json json = io::parse_json(text, file);
  const lab::Figure* figure = nullptr;
  std::string setting;
  lab::FigureResult result;
  with_prefix(file + ": ", [&] {
    figure = &lab::find_figure(get<std::string>(json, "figure"));
    setting = get<std::string>(json, "setting");
    for (const Json& panel : get_array(json, "panels")) result.panels.push_back(read_panel(panel));
    for (const Json& check : get_array(json, "checks")) result.checks.push_back(read_check(check));
    for (const Chart& chart : to_charts(result.panels)) check(chart);
  });
  return {*figure, std::move(setting), std::move(result)};
}

}  // namespace addnorm::report
