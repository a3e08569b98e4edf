#include "report/heat_map_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "report/text.h"
#include "report/theme.h"

namespace addnorm::report {
namespace {

constexpr int kMostMapRows = 48;
constexpr int kColumnsBetween = 4;  // columns between two maps
constexpr int kShades = 4;
// Shades for increasing values, beginning with nearly zero. Shades of negative values are other
// characters, so they differ without colour.
constexpr std::string_view kPositiveShades[1 + kShades] = {"·", "░", "▒", "▓", "█"};
constexpr std::string_view kNegativeShades[1 + kShades] = {"·", "-", "~", "=", "%"};
constexpr std::string_view kNotFinite = "?";

class HeatPlot {
 public:
  HeatPlot(const Chart& chart, int width);

  std::string draw() const;

 private:
  std::size_t shown(std::size_t count) const { return (count + step_ - 1) / step_; }
  int map_width() const {
    return names_ + std::max(wide_ * static_cast<int>(shown(columns_)), title_);
  }
  int shade(double value) const;
  std::string cell(double value, int columns) const;
  std::string legend() const;
  std::vector<std::string> lines(const HeatMap& map) const;
  std::string column_names() const;

  const Chart& chart_;
  const int width_;
  const HeatScale scale_;
  const std::size_t rows_, columns_;
  int names_ = 0;         // width of the rows' names
  int title_ = 0;         // width of the widest map's name
  int wide_ = 2;          // width of a cell
  std::size_t step_ = 1;  // every step_-th row and column is shown
  bool beside_ = false;
};

HeatPlot::HeatPlot(const Chart& chart, int width)
    : chart_(chart),
      width_(width),
      scale_(heat_scale(chart)),
      rows_(rows_of(chart)),
      columns_(columns_of(chart)) {
  for (std::size_t r = 0; r < rows_; ++r) {
    names_ = std::max(names_, display_width(place_name(chart.y, r)) + 1);
  }
  for (const HeatMap& map : chart.maps) title_ = std::max(title_, display_width(map.name));
  const auto fits = [&](int maps) {
    return maps * map_width() + kColumnsBetween * (maps - 1) <= width;
  };
  while (shown(rows_) > kMostMapRows) ++step_;
  const int maps = static_cast<int>(chart.maps.size());
  if (!fits(maps)) wide_ = 1;
  beside_ = fits(maps);
  if (beside_) return;
  wide_ = 2;
  if (!fits(1)) wide_ = 1;
  while (!fits(1) && step_ < columns_) ++step_;
}

/// Zero has no shade, and any larger value has one.
int HeatPlot::shade(double value) const {
  const double part = scale_.most > 0 ? std::abs(value) / scale_.most : 0;
  if (part < 0.5 / kHeatLevels) return 0;
  return std::clamp(static_cast<int>(std::ceil(part * kShades - 1e-9)), 1, kShades);
}

std::string HeatPlot::cell(double value, int columns) const {
  const auto drawn = [&](std::string_view glyph) { return repeat(glyph, columns); };
  if (!std::isfinite(value)) return paint(Ink::kBad, drawn(kNotFinite));
  const int s = shade(value);
  if (s == 0) return paint(Ink::kFaint, drawn(kPositiveShades[0]));
  return value < 0 ? paint_series(kNegativeHeat, drawn(kNegativeShades[s]))
                   : paint_series(kPositiveHeat, drawn(kPositiveShades[s]));
}

/// Explains the shades by the largest value of each. Those of negative values have their own line.
std::string HeatPlot::legend() const {
  const auto shades = [&](double sign) {
    std::string text;
    for (int s = 1; s <= kShades; ++s) {
      const double most = sign * scale_.most * s / kShades;
      text += "  " + cell(most, 1) + " " + format_number(most, 2);
    }
    return text;
  };
  std::string text = chart_.value + ":  " + cell(0, 1) + " 0" + shades(1);
  if (scale_.has_broken) text += "  " + paint(Ink::kBad, kNotFinite) + " not finite";
  if (scale_.has_negative) text += "\n" + repeat(" ", display_width(chart_.value) + 6) + shades(-1);
  return text + "\n";
}

std::vector<std::string> HeatPlot::lines(const HeatMap& map) const {
  std::vector<std::string> lines{repeat(" ", names_) + paint(Ink::kStrong, map.name)};
  for (std::size_t r = 0; r < map.rows.size(); r += step_) {
    std::string line =
        paint(Ink::kFaint, pad(place_name(chart_.y, r), names_ - 1, Align::kRight)) + " ";
    for (std::size_t c = 0; c < map.rows[r].size(); c += step_) line += cell(map.rows[r][c], wide_);
    lines.push_back(line);
  }
  lines.push_back(paint(Ink::kFaint, column_names()));
  return lines;
}

/// The names below their columns, as far as there is room.
std::string HeatPlot::column_names() const {
  std::string text;
  for (std::size_t c = 0; c < columns_; c += step_) {
    const int column = names_ + wide_ * static_cast<int>(c / step_);
    const std::string name = place_name(chart_.x, c);
    const int at = display_width(text);
    if (column < at + (c > 0) || column + display_width(name) > map_width()) continue;
    text += repeat(" ", column - at) + name;
  }
  return text;
}

std::string HeatPlot::draw() const {
  std::string out = wrap(paint(Ink::kStrong, chart_.title), width_) + "\n" + legend();
  const std::string_view how_many = step_ == 1   ? ""
                                    : step_ == 2 ? "; every 2nd is shown"
                                                 : "; some are left out";
  out +=
      paint(Ink::kFaint,
            wrap(fmt::format("Down: {}. Across: {}{}.", chart_.y.label, chart_.x.label, how_many),
                 width_)) +
      "\n";
  std::vector<std::vector<std::string>> maps;
  for (const HeatMap& map : chart_.maps) maps.push_back(lines(map));
  const std::size_t together = beside_ ? maps.size() : 1;  // number of maps side by side
  for (std::size_t first = 0; first < maps.size(); first += together) {
    for (std::size_t r = 0; r < maps[first].size(); ++r) {
      std::string line;
      for (std::size_t m = first; m < first + together; ++m) {
        const int begins = static_cast<int>(m - first) * (map_width() + kColumnsBetween);
        line = pad(line, begins, Align::kLeft) + (r < maps[m].size() ? maps[m][r] : "");
      }
      out += line + "\n";
    }
  }
  return out;
}

}  // namespace

std::string draw_heat_plot(const Chart& chart, int width) {
  return HeatPlot(chart, width).draw();
}

}  // namespace addnorm::report
