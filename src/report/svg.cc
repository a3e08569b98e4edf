#include "report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/require.h"
#include "report/svg_parts.h"
#include "report/text.h"
#include "report/theme.h"

namespace addnorm::report {
namespace {

constexpr double kHeadingSize = 22;  // of a sheet
constexpr double kLine = 21;         // of the legend
constexpr double kInset = 8;         // room for markers between the frame and the first and last x
constexpr double kKeyWidth = 30;     // of the sample next to a name in the legend
constexpr double kKeyGap = 8;
constexpr double kFar = 50;   // in heights of the plot; coordinates beyond are clamped
constexpr double kAlone = 3;  // to both sides of a single point; shorter than its marker
constexpr double kAlonePredicted = 12;
constexpr std::size_t kMostMarkers = 24;  // a longer curve has markers at a few points only
constexpr std::size_t kFewMarkers = 5;

// Strokes and fills inherit the colour of their series from `color`; the sizes are those above.
constexpr std::string_view kCss =
    ".chart{font:13px system-ui,sans-serif;font-variant-numeric:tabular-nums;color:var(--muted)}"
    ".chart text{fill:var(--ink)}"
    ".chart .heading{font-size:22px;font-weight:600}"
    ".chart .title{font-size:17px;font-weight:600}"
    ".chart .muted{fill:var(--muted)}"
    ".chart .grid{stroke:var(--grid)}"
    ".chart .axis{stroke:var(--muted)}"
    ".chart .band{fill:currentColor;fill-opacity:.15}"
    ".chart .line{fill:none;stroke:currentColor;stroke-width:2;stroke-linejoin:round;"
    "stroke-linecap:round}"
    ".chart .line.dashed{stroke-dasharray:6 5}"
    ".chart .line.prediction{stroke-width:9;stroke-opacity:.3;stroke-linecap:butt}"
    ".chart .band.prediction{stroke:currentColor;stroke-dasharray:1 3}"
    ".chart .full{fill:currentColor;stroke:var(--paper)}"
    ".chart .hollow{fill:var(--paper);stroke:currentColor;stroke-width:1.7}"
    ".chart .cross{stroke:currentColor;stroke-width:2.5}"
    ".chart .cells{stroke:var(--grid)}"
    ".chart .halo{stroke:var(--paper);stroke-width:6}";

// The shapes of the markers, around the origin, one for each colour.
constexpr std::string_view kShapes[kSeriesColors] = {
    "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z",
    "M-3.6,-3.6h7.2v7.2h-7.2z",
    "M0,-5L4.6,3.4H-4.6z",
    "M0,-5.2L5.2,0L0,5.2L-5.2,0z",
    "M0,5L4.6,-3.4H-4.6z",
    "M-1.6,-4.8h3.2v3.2h3.2v3.2h-3.2v3.2h-3.2v-3.2h-3.2v-3.2h3.2z",
    "M-5.5,-2.2h11v4.4h-11z",
    "M-2.2,-5.5h4.4v11h-4.4z",
};
constexpr std::string_view kBreak =
    "<path class=\"halo\" d=\"M-5,-5L5,5M-5,5L5,-5\"/>"
    "<path class=\"cross\" d=\"M-5,-5L5,5M-5,5L5,-5\"/>";
constexpr std::string_view kZero = "<path class=\"hollow\" d=\"M0,5L-4.6,-3.4H4.6z\"/>";

struct Box {
  double left, top, right, bottom;
};

// Returns the image as a part of another one, at this height.
std::string nested(const Image& image, double top) {
  return fmt::format("<svg y=\"{:.0f}\" width=\"{}\" height=\"{:.0f}\">{}</svg>", top, image.width,
                     image.height, image.body);
}

std::string alone(const Image& image) {
  return fmt::format(
      "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{0}\" "
      "height=\"{1:.0f}\" viewBox=\"0 0 {0} {1:.0f}\"><title>{2}</title><desc>{3}</desc>"
      "<style>{4}{5}</style><rect width=\"100%\" height=\"100%\" fill=\"var(--paper)\"/>{6}</svg>",
      image.width, image.height, escape(image.title), escape(image.description),
      theme_css(".chart"), kCss, image.body);
}

// Returns the intervals [first, last) of the indices below `count` that satisfy `holds`.
template <typename Holds>
std::vector<std::pair<std::size_t, std::size_t>> stretches(std::size_t count, const Holds& holds) {
  std::vector<std::pair<std::size_t, std::size_t>> found;
  for (std::size_t i = 0; i < count; ++i) {
    if (!holds(i)) continue;
    const std::size_t first = i;
    while (i < count && holds(i)) ++i;
    found.emplace_back(first, i);
  }
  return found;
}

std::string describe(const Chart& chart) {
  std::string text = fmt::format("{} over {}.", chart.y.label, chart.x.label);
  for (const Series& s : chart.series) {
    if (s.y.empty() || s.name.empty()) continue;
    const std::size_t last = breaks_at(s).value_or(s.y.size() - 1);
    text += fmt::format(" {}: {} at {}, {} at {}{}.", s.name, format_number(s.y[0]),
                        format_number(s.x[0]), format_number(s.y[last]), format_number(s.x[last]),
                        last + 1 < s.y.size() ? ", then no longer finite" : "");
  }
  return text;
}

std::string_view class_of(Look look) {
  switch (look) {
    case Look::kSolid:
      return "solid";
    case Look::kDashed:
      return "dashed";
    case Look::kPrediction:
      return "prediction";
  }
  return "";
}

std::string marker(Look look, int color) {
  return fmt::format("<path class=\"{}\" d=\"{}\"/>", look == Look::kDashed ? "hollow" : "full",
                     kShapes[color]);
}

void append_point(std::string& path, double x, double y) {
  fmt::format_to(std::back_inserter(path), "{}{:.1f},{:.1f}", path.empty() ? 'M' : 'L', x, y);
}

// Draws from top to bottom.
class Drawing {
 public:
  Drawing(const Chart& chart, int width);

  Image draw();

 private:
  // A sample drawn around the origin, kKeyWidth wide, and its meaning.
  struct Key {
    std::string sample;
    std::string name;
  };

  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(body_), format, std::forward<Args>(args)...);
  }

  void add_mark(std::string_view mark, double x, double y) {
    add("<g transform=\"translate({:.1f},{:.1f})\">{}</g>", x, y, mark);
  }

  void add_mark_inside(std::string_view mark, double x, double y) {
    if (x < plot_.left || x > plot_.right || y < plot_.top || y > plot_.bottom) return;
    add_mark(mark, x, y);
  }

  int color_of(std::size_t series) const {
    return chart_.series[series].color.value_or(static_cast<int>(series)) % kSeriesColors;
  }
  bool has_point(const Series& s, std::size_t i) const {
    return has_place(s.x[i], chart_.x.scale) && has_place(s.y[i], chart_.y.scale);
  }
  // The position of a point of the series.
  struct Place {
    double x;
    std::size_t point;
  };
  std::vector<Place> places_of(const Series& s, std::size_t first, std::size_t last) const;
  double x_of(double value) const;
  double y_of(double value) const;

  std::vector<Key> keys() const;
  std::string sample_of(std::size_t series) const;
  void draw_legend();
  void draw_y_axis();
  void draw_x_axis();
  void draw_series();
  void draw_band(std::size_t series);
  void draw_line(std::size_t series);
  void draw_markers(std::size_t series);

  const Chart& chart_;
  const double width_;
  double top_ = kEdge;  // top of the remaining area
  Box plot_{};
  Range x_range_, y_range_;
  std::string body_;
};

Drawing::Drawing(const Chart& chart, int width)
    : chart_(chart), width_(width), x_range_(x_range(chart)), y_range_(y_range(chart)) {}

Image Drawing::draw() {
  body_ = paragraph(chart_.title, "title", kTitleSize, width_, top_);
  top_ += 4;
  draw_legend();
  draw_y_axis();
  draw_x_axis();
  draw_series();
  return {width_, top_, chart_.title, describe(chart_), body_};
}

// Returns the positions of the points in [first, last). A single point is wide enough to be
// visible.
std::vector<Drawing::Place> Drawing::places_of(const Series& s, std::size_t first,
                                               std::size_t last) const {
  std::vector<Place> places;
  for (std::size_t i = first; i < last; ++i) places.push_back({x_of(s.x[i]), i});
  if (last - first > 1) return places;
  const double half = s.look == Look::kPrediction ? kAlonePredicted : kAlone;
  return {{places[0].x - half, first}, {places[0].x + half, first}};
}

double Drawing::x_of(double value) const {
  const double part = std::clamp(place(value, x_range_, chart_.x.scale), -kFar, kFar);
  return plot_.left + kInset + part * (plot_.right - plot_.left - 2 * kInset);
}

double Drawing::y_of(double value) const {
  const double part = std::clamp(place(value, y_range_, chart_.y.scale), -kFar, kFar);
  return plot_.bottom - part * (plot_.bottom - plot_.top);
}

std::string Drawing::sample_of(std::size_t series) const {
  const Series& s = chart_.series[series];
  std::string sample = fmt::format("<g style=\"color:var(--c{})\">", color_of(series));
  if (!s.low.empty()) {
    sample +=
        fmt::format("<rect class=\"band {}\" x=\"{}\" y=\"-6.5\" width=\"{}\" height=\"13\"/>",
                    class_of(s.look), -kKeyWidth / 2, kKeyWidth);
  }
  if (!s.y.empty()) {
    sample += fmt::format("<path class=\"line {}\" d=\"M{},0h{}\"/>", class_of(s.look),
                          1 - kKeyWidth / 2, kKeyWidth - 2);
    if (s.look != Look::kPrediction) sample += marker(s.look, color_of(series));
  }
  return sample + "</g>";
}

std::vector<Drawing::Key> Drawing::keys() const {
  std::vector<Key> keys;
  for (std::size_t i = 0; i < chart_.series.size(); ++i) {
    const Series& s = chart_.series[i];
    const bool is_empty = !s.y.empty() && widen({}, s.y, chart_.y.scale).empty();
    if (!s.name.empty()) {
      keys.push_back({sample_of(i), s.name + (is_empty ? ": nothing to show" : "")});
    }
  }
  if (has_break(chart_)) keys.push_back({std::string(kBreak), "no longer finite"});
  if (has_zero_of_log(chart_)) keys.push_back({std::string(kZero), "zero or less"});
  return keys;
}

// Uses as many columns as there is room for, with evenly filled rows.
void Drawing::draw_legend() {
  const std::vector<Key> all = keys();
  if (all.empty()) return;
  double widest = 0;
  for (const Key& key : all) widest = std::max(widest, text_width(key.name, kTextSize));
  const double room = width_ - 2 * kEdge - kKeyWidth - kKeyGap;
  widest = std::min(widest, room);
  const double cell = kKeyWidth + kKeyGap + widest + 2 * kKeyGap;
  const double fitting = std::max(1.0, (width_ - 2 * kEdge + 2 * kKeyGap) / cell);
  const auto most = static_cast<std::size_t>(fitting);
  const std::size_t rows = (all.size() + most - 1) / most;
  const std::size_t columns = (all.size() + rows - 1) / rows;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t row = i / columns;
    const double x = kEdge + cell * static_cast<double>(i % columns);
    const double y = top_ + kLine * (static_cast<double>(row) + 0.5);
    const bool fits = text_width(all[i].name, kTextSize) <= room;
    add_mark(all[i].sample, x + kKeyWidth / 2, y);
    add("<text x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>", x + kKeyWidth + kKeyGap, y + 4.5,
        fits ? "" : fmt::format(" textLength=\"{:.0f}\" lengthAdjust=\"spacingAndGlyphs\"", room),
        escape(all[i].name));
  }
  top_ += kLine * static_cast<double>(rows) + 8;
}

// The label is above the axis, because horizontal text is easiest to read.
void Drawing::draw_y_axis() {
  for (const std::string& line : lines_of(chart_.y.label, width_ - 2 * kEdge, kTextSize)) {
    add("<text class=\"muted\" x=\"{}\" y=\"{:.1f}\">{}</text>", kEdge, top_ + 10, escape(line));
    top_ += 18;
  }
  const double height = std::clamp(0.45 * width_, 220.0, 340.0);
  const std::vector<Tick> marks = ticks(y_range_, chart_.y.scale, static_cast<int>(height / 36));
  double widest = 0;
  for (const Tick& tick : marks) widest = std::max(widest, text_width(tick.label, kTextSize));
  top_ += 6;
  plot_ = {kEdge + widest + 6, top_, width_ - kEdge, top_ + height};
  for (const Tick& tick : marks) {
    const double y = y_of(tick.value);
    if (tick.label.empty()) continue;
    add("<path class=\"grid\" d=\"M{:.1f},{:.1f}H{:.1f}\"/>", plot_.left, y, plot_.right);
    add("<text class=\"muted\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>",
        plot_.left - 6, y + 4.5, tick.label);
  }
  top_ = plot_.bottom;
}

void Drawing::draw_x_axis() {
  add("<path class=\"axis\" d=\"M{:.1f},{:.1f}H{:.1f}\"/>", plot_.left, plot_.bottom, plot_.right);
  const bool named = !chart_.x.names.empty();
  const int most = static_cast<int>((plot_.right - plot_.left) / 65);
  double widest = 0;
  for (const Tick& tick : x_ticks(chart_, x_range_, most)) {
    const double x = x_of(tick.value);
    const double size = text_width(tick.label, kTextSize);
    widest = std::max(widest, size);
    add("<path class=\"axis\" d=\"M{:.1f},{:.1f}v{}\"/>", x, top_, tick.label.empty() ? 3 : 5);
    if (named) {
      add("<text class=\"muted\" text-anchor=\"end\" transform=\"translate({:.1f},{:.1f}) "
          "rotate(-90)\">{}</text>",
          x + 4.5, top_ + 9, escape(tick.label));
    } else {
      add("<text class=\"muted\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>",
          std::min(x, width_ - 2 - size / 2), top_ + 19, tick.label);
    }
  }
  top_ += named ? widest + 30 : 40;
  add("<text class=\"muted\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>",
      (plot_.left + plot_.right) / 2, top_, escape(chart_.x.label));
  top_ += kEdge;
}

// An inner <svg> clips curves at the plot's border; markers are outside it, complete.
void Drawing::draw_series() {
  add("<svg x=\"{0:.1f}\" y=\"{1:.1f}\" width=\"{2:.1f}\" height=\"{3:.1f}\" "
      "viewBox=\"{0:.1f} {1:.1f} {2:.1f} {3:.1f}\">",
      plot_.left, plot_.top, plot_.right - plot_.left, plot_.bottom - plot_.top);
  for (std::size_t i = 0; i < chart_.series.size(); ++i) draw_band(i);
  for (Look look : {Look::kPrediction, Look::kDashed, Look::kSolid}) {
    for (std::size_t i = 0; i < chart_.series.size(); ++i) {
      if (chart_.series[i].look == look) draw_line(i);
    }
  }
  add("</svg>");
  for (std::size_t i = 0; i < chart_.series.size(); ++i) draw_markers(i);
}

void Drawing::draw_band(std::size_t series) {
  const Series& s = chart_.series[series];
  const auto has_band = [&](std::size_t i) {
    return has_place(s.x[i], chart_.x.scale) && !std::isnan(s.low[i]) && !std::isnan(s.high[i]);
  };
  for (auto [first, last] : stretches(s.low.size(), has_band)) {
    std::vector<Place> places = places_of(s, first, last);
    std::string path;
    for (const auto& [x, i] : places) append_point(path, x, y_of(s.high[i]));
    std::ranges::reverse(places);
    for (const auto& [x, i] : places) append_point(path, x, y_of(s.low[i]));
    add("<path class=\"band {}\" style=\"color:var(--c{})\" d=\"{}z\"/>", class_of(s.look),
        color_of(series), path);
  }
}

void Drawing::draw_line(std::size_t series) {
  const Series& s = chart_.series[series];
  const auto has_point = [&](std::size_t i) { return this->has_point(s, i); };
  add("<g style=\"color:var(--c{})\"><title>{}</title>", color_of(series), escape(s.name));
  for (auto [first, last] : stretches(s.y.size(), has_point)) {
    std::string path;
    for (const auto& [x, i] : places_of(s, first, last)) append_point(path, x, y_of(s.y[i]));
    add("<path class=\"line {}\" d=\"{}\"/>", class_of(s.look), path);
    if (last - first > 1 || s.look == Look::kPrediction) continue;
    add_mark(marker(s.look, color_of(series)), x_of(s.x[first]), y_of(s.y[first]));
  }
  add("</g>");
}

void Drawing::draw_markers(std::size_t series) {
  const Series& s = chart_.series[series];
  const int color = color_of(series);
  add("<g style=\"color:var(--c{})\">", color);
  // A long curve's few markers are at other positions than those of the other series.
  const std::size_t step = s.y.size() <= kMostMarkers ? 1 : s.y.size() / kFewMarkers;
  const std::size_t first = step * (2 * series + 1) / (2 * chart_.series.size());
  for (std::size_t i = first; i < s.y.size() && s.look != Look::kPrediction; i += step) {
    if (has_point(s, i)) add_mark_inside(marker(s.look, color), x_of(s.x[i]), y_of(s.y[i]));
  }
  for (std::size_t i = 0; i < s.y.size(); ++i) {
    if (is_zero_of_log(s.y[i], chart_.y)) add_mark_inside(kZero, x_of(s.x[i]), plot_.bottom - 6);
  }
  if (const auto last = breaks_at(s)) {
    const double y = std::clamp(y_of(s.y[*last]), plot_.top, plot_.bottom);
    add_mark_inside(kBreak, x_of(s.x[*last]), y);
  }
  add("</g>");
}

Image draw(const Chart& chart, int width) {
  check(chart);
  return chart.maps.empty() ? Drawing(chart, width).draw() : draw_heat_maps(chart, width);
}

}  // namespace

std::string to_svg(const Chart& chart, int width) {
  return alone(draw(chart, width));
}

std::string to_svg(const ChartSheet& sheet, int width) {
  Image image{.width = static_cast<double>(width), .height = kEdge, .title = sheet.title};
  auto write = [&](std::string_view text, std::string_view css_class, double size) {
    image.body += paragraph(text, css_class, size, width, image.height);
  };
  write(sheet.title, "heading", kHeadingSize);
  for (const std::string& text : sheet.lead) {
    image.height += kKeyGap;
    write(text, "muted", kTextSize);
  }
  for (const ChartSheet::Part& part : sheet.parts) {
    const Image chart = draw(part.chart, width);
    image.height += kLine;
    image.body += nested(chart, image.height);
    image.height += chart.height;
    image.description += fmt::format("{}: {} ", chart.title, chart.description);
    write(part.caption, "muted", kTextSize);
  }
  image.height += kEdge;
  return alone(image);
}

}  // namespace addnorm::report
