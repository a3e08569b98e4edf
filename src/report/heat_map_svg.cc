#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "report/svg_parts.h"
#include "report/text.h"

namespace addnorm::report {
namespace {

constexpr double kBeside = 560;      // from this width on maps are side by side
constexpr double kBetweenMaps = 24;  // between two maps
constexpr double kLargestCell = 30;
constexpr double kSmallestEdged = 7;     // a smaller cell has no border
constexpr double kTickRoom = 15;         // of a row's upright name
constexpr std::size_t kMostTitled = 40;  // columns; cells of a wider map have no tooltips
constexpr double kScaleHeight = 12;      // height of the scale of colours

/// Draws from top to bottom.
class HeatDrawing {
 public:
  HeatDrawing(const Chart& chart, int width)
      : chart_(chart), width_(width), scale_(heat_scale(chart)), columns_(columns_of(chart)) {}

  Image draw();

 private:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(body_), format, std::forward<Args>(args)...);
  }
  void add_text(double x, double y, std::string_view anchor, std::string_view text) {
    add("<text class=\"muted\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>", x, y,
        anchor, escape(text));
  }

  std::string fill_of(double value) const;
  std::string path_of(std::size_t r, std::size_t c, double left, double top) const;
  void draw_legend();
  void draw_map(const HeatMap& map, double left, double top);
  void draw_titled(const HeatMap& map, double left, double top);
  void draw_levels(const HeatMap& map, double left, double top);
  void draw_names(const HeatMap& map, double left, double top);
  double names_width() const;

  const Chart& chart_;
  const double width_;
  const HeatScale scale_;
  const std::size_t columns_;
  double cell_ = 0;
  double top_ = kEdge;
  std::string body_;
};

/// Returns colour and opacity, for light and dark paper; kPositiveHeat inherits its group's colour.
std::string HeatDrawing::fill_of(double value) const {
  if (!std::isfinite(value)) return " fill=\"var(--bad)\"";
  const int level = scale_.level(value);
  return fmt::format("{} fill-opacity=\"{:.2g}\"",
                     level < 0 ? fmt::format(" fill=\"var(--c{})\"", kNegativeHeat) : "",
                     std::abs(level) / static_cast<double>(kHeatLevels));
}

/// Returns the path of a cell with this upper left corner.
std::string HeatDrawing::path_of(std::size_t r, std::size_t c, double left, double top) const {
  return fmt::format("M{:.1f},{:.1f}h{:.4g}v{:.4g}h{:.4g}z", left + cell_ * static_cast<double>(c),
                     top + cell_ * static_cast<double>(r), cell_, cell_, -cell_);
}

/// Draws a bar of all levels, with the numbers of its ends.
void HeatDrawing::draw_legend() {
  add("<text class=\"muted\" x=\"{}\" y=\"{:.1f}\">{}</text>", kEdge, top_ + 10,
      escape(chart_.value));
  top_ += 20;
  const int first = scale_.has_negative ? -kHeatLevels : 0;
  const std::string low = scale_.has_negative ? format_number(-scale_.most) : "0";
  const std::string most = format_number(scale_.most);
  const double left = kEdge + text_width(low, kTextSize) + 8, step = 7;
  add_text(kEdge, top_ + kScaleHeight - 1, "start", low);
  add("<g fill=\"var(--c{})\">", kPositiveHeat);
  for (int level = first; level <= kHeatLevels; ++level) {
    add("<path{} d=\"M{:.1f},{:.1f}h{}v{}h{}z\"/>", fill_of(scale_.most * level / kHeatLevels),
        left + step * (level - first), top_, step, kScaleHeight, -step);
  }
  add("</g>");
  double x = left + step * (kHeatLevels - first + 1);
  add("<path class=\"grid\" fill=\"none\" d=\"M{:.1f},{:.1f}H{:.1f}v{}H{:.1f}z\"/>", left, top_, x,
      kScaleHeight, left);
  add_text(x + 8, top_ + kScaleHeight - 1, "start", most);
  if (scale_.has_broken) {
    x += 16 + text_width(most, kTextSize);
    add("<rect fill=\"var(--bad)\" x=\"{0:.1f}\" y=\"{1:.1f}\" "
        "width=\"{2}\" height=\"{2}\"/>",
        x, top_, kScaleHeight);
    add_text(x + kScaleHeight + 6, top_ + kScaleHeight - 1, "start", "not finite");
  }
  top_ += kScaleHeight + 14;
}

/// Returns the width of the rows' names.
double HeatDrawing::names_width() const {
  double widest = 0;
  for (std::size_t r = 0; r < rows_of(chart_); ++r) {
    widest = std::max(widest, text_width(place_name(chart_.y, r), kTextSize));
  }
  return widest + 8;
}

void HeatDrawing::draw_titled(const HeatMap& map, double left, double top) {
  for (std::size_t r = 0; r < map.rows.size(); ++r) {
    for (std::size_t c = 0; c < map.rows[r].size(); ++c) {
      const double value = map.rows[r][c];
      add("<path{} d=\"{}\"><title>{} ← {}: {}</title></path>", fill_of(value),
          path_of(r, c, left, top), escape(place_name(chart_.y, r)),
          escape(place_name(chart_.x, c)), format_number(value));
    }
  }
}

/// Draws all cells of one colour in one path, which makes the file small.
void HeatDrawing::draw_levels(const HeatMap& map, double left, double top) {
  std::map<std::string, std::string> paths;  // by fill
  for (std::size_t r = 0; r < map.rows.size(); ++r) {
    for (std::size_t c = 0; c < map.rows[r].size(); ++c) {
      paths[fill_of(map.rows[r][c])] += path_of(r, c, left, top);
    }
  }
  for (const auto& [fill, path] : paths) add("<path{} d=\"{}\"/>", fill, path);
}

/// Draws the names of rows on the left and of columns below, as many as there is room for.
void HeatDrawing::draw_names(const HeatMap& map, double left, double top) {
  const auto middle = [&](std::size_t place) { return cell_ * (static_cast<double>(place) + 0.5); };
  double free = 0;  // earliest position of the next name
  for (std::size_t r = 0; r < map.rows.size(); ++r) {
    if (middle(r) - kTickRoom / 2 < free && r > 0) continue;
    add_text(left - 6, top + middle(r) + 4.5, "end", place_name(chart_.y, r));
    free = middle(r) + kTickRoom / 2;
  }
  free = -kBetweenMaps;
  for (std::size_t c = 0; c < columns_; ++c) {
    const std::string name = place_name(chart_.x, c);
    const double half = text_width(name, kTextSize) / 2 + 3;
    if (middle(c) - half < free) continue;
    add_text(left + middle(c), top + cell_ * static_cast<double>(map.rows.size()) + 15, "middle",
             name);
    free = middle(c) + half;
  }
}

void HeatDrawing::draw_map(const HeatMap& map, double left, double top) {
  add("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", left, top - 8, escape(map.name));
  add("<g fill=\"var(--c{})\"{}>", kPositiveHeat,
      cell_ >= kSmallestEdged ? " class=\"cells\"" : "");
  columns_ <= kMostTitled ? draw_titled(map, left, top) : draw_levels(map, left, top);
  add("</g>");
  draw_names(map, left, top);
}

std::string describe(const Chart& chart, const HeatScale& scale) {
  std::string text = fmt::format("Rows: {}; columns: {}.", chart.y.label, chart.x.label);
  for (const HeatMap& map : chart.maps) {
    if (!map.rows.empty() && !map.rows.back().empty()) {
      text += fmt::format(" {}: the last row from {} to {}.", map.name,
                          format_number(map.rows.back().front()),
                          format_number(map.rows.back().back()));
    }
  }
  return fmt::format("{} The largest: {}.", text, format_number(scale.most));
}

Image HeatDrawing::draw() {
  body_ = paragraph(chart_.title, "title", kTitleSize, width_, top_);
  top_ += 4;
  draw_legend();
  for (const std::string& line : lines_of(chart_.y.label, width_ - 2 * kEdge, kTextSize)) {
    add_text(kEdge, top_ + 10, "start", line);
    top_ += 18;
  }
  const bool beside = width_ >= kBeside;
  const double names = names_width();
  const double across = beside ? static_cast<double>(chart_.maps.size()) : 1;
  const double each = (width_ - 2 * kEdge - kBetweenMaps * (across - 1)) / across;
  cell_ = std::min(kLargestCell,
                   (each - names) / static_cast<double>(std::max<std::size_t>(columns_, 1)));
  double left = kEdge + names, bottom = top_;
  for (const HeatMap& map : chart_.maps) {
    const double top = top_ + 26;
    draw_map(map, left, top);
    bottom = std::max(bottom, top + cell_ * static_cast<double>(map.rows.size()) + 18);
    if (beside) {
      left += each + kBetweenMaps;
    } else {
      top_ = bottom + 6;
    }
  }
  top_ = bottom + 18;
  add_text(kEdge + names, top_, "start", chart_.x.label);
  top_ += kEdge;
  return {width_, top_, chart_.title, describe(chart_, scale_), std::move(body_)};
}

}  // namespace

Image draw_heat_maps(const Chart& chart, int width) {
  return HeatDrawing(chart, width).draw();
}

}  // namespace addnorm::report
