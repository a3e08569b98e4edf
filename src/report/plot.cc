#include "report/plot.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "report/heat_map_plot.h"
#include "report/text.h"
#include "report/theme.h"

namespace addnorm::report {
namespace {

constexpr int kRows = 16;
constexpr int kMostColumns = 100;  // a wider plot is no easier to read
constexpr int kLeastColumns = 10;
// columns between marks, so that the prediction is visible between them
constexpr int kBetweenMarks = 3;
constexpr double kAloneColumns = 2;  // columns to both sides of a prediction for a single point

// The marks of the series' colours; a dashed curve has hollow ones.
constexpr std::string_view kFull[kSeriesColors] = {"●", "■", "▲", "◆", "▼", "★", "▶", "◀"};
constexpr std::string_view kHollow[kSeriesColors] = {"○", "□", "△", "◇", "▽", "☆", "▷", "◁"};
constexpr std::string_view kBand = "·";
constexpr std::string_view kLineGlyph = "░";
constexpr std::string_view kBreakGlyph = "×";
constexpr std::string_view kZeroGlyph = "0";

// A glyph in the colour of a series, or faint.
struct Mark {
  std::string glyph = " ";
  std::optional<int> color = {};

  std::string str() const {
    return color ? paint_series(*color, glyph) : paint(Ink::kFaint, glyph);
  }
};

// Returns the number of a named place, counted from 1: a column has no room for a name.
std::string number_of(double place) {
  return std::to_string(std::lround(place) + 1);
}

// Cells to draw in, each one column wide; drawing outside has no effect.
class Canvas {
 public:
  Canvas(int columns, int rows) : columns_(columns), rows_(rows) {
    cells_.resize(static_cast<std::size_t>(columns) * static_cast<std::size_t>(rows));
  }

  void put(int column, int row, const Mark& mark) {
    if (column < 0 || column >= columns_ || row < 0 || row >= rows_) return;
    cells_[cell(column, row)] = mark;
  }
  void write(int column, int row, std::string_view text) {
    for (; !text.empty(); text.remove_prefix(first_glyph(text).bytes.size())) {
      put(column++, row, {std::string(first_glyph(text).bytes)});
    }
  }

  std::string str() const {
    std::string text;
    for (int row = 0; row < rows_; ++row) {
      Mark run{""};  // run of one colour, painted at once
      for (int column = 0; column < columns_; ++column) {
        const Mark& mark = cells_[cell(column, row)];
        if (mark.color != run.color) text += std::exchange(run, {"", mark.color}).str();
        run.glyph += mark.glyph;
      }
      if (!run.color) run.glyph.erase(run.glyph.find_last_not_of(' ') + 1);
      text += run.str() + '\n';
    }
    return text;
  }

 private:
  std::size_t cell(int column, int row) const {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(columns_) +
           static_cast<std::size_t>(column);
  }

  int columns_, rows_;
  std::vector<Mark> cells_;
};

// A plot with the labels of its rows and an axis on the left, and an axis and the labels of its
// columns below.
class Plot {
 public:
  Plot(const Chart& chart, int width);

  std::string draw();

 private:
  // The rows from `top` to `bottom`.
  struct Span {
    double top, bottom;
  };

  // Cells are counted from the centre of the first one.
  double column_of(double x) const;
  double row_of(double y) const;
  int color_of(std::size_t series) const {
    return chart_.series[series].color.value_or(static_cast<int>(series)) % kSeriesColors;
  }
  Mark mark_of(std::size_t series) const;

  std::string legend() const;
  std::string x_label() const;
  void draw_y_axis();
  void draw_x_axis();
  void draw_predictions();
  void shade(std::size_t series, const std::vector<double>& low, const std::vector<double>& high,
             std::string_view glyph);
  void shade_between(double left, Span first, double right, Span last, const Mark& mark);
  void draw_measured();
  void draw_point(std::size_t series, std::size_t point);

  const Chart& chart_;
  const int width_;
  const Range x_range_, y_range_;
  const std::vector<Tick> y_ticks_;
  int left_ = 2;  // position of the first column
  int columns_ = 0;
  Canvas canvas_{0, 0};
};

Plot::Plot(const Chart& chart, int width)
    : chart_(chart),
      width_(std::min(width, kMostColumns)),
      x_range_(x_range(chart)),
      y_range_(y_range(chart)),
      y_ticks_(ticks(y_range_, chart.y.scale, kRows / 3)) {
  for (const Tick& tick : y_ticks_) left_ = std::max(left_, display_width(tick.label) + 2);
  columns_ = std::max(kLeastColumns, width_ - left_);
  canvas_ = Canvas(left_ + columns_, kRows + 2);
}

std::string Plot::draw() {
  draw_y_axis();
  draw_x_axis();
  draw_predictions();
  draw_measured();
  return wrap(paint(Ink::kStrong, chart_.title), width_) + "\n" + legend() +
         paint(Ink::kFaint, wrap(chart_.y.label, width_)) + "\n" + canvas_.str() + x_label();
}

std::string Plot::x_label() const {
  std::string names;
  for (const std::string& name : chart_.x.names) {
    const double place = static_cast<double>(&name - chart_.x.names.data());
    names += (names.empty() ? "" : ", ") + number_of(place) + " " + name;
  }
  if (!names.empty()) return paint(Ink::kFaint, wrap(chart_.x.label + ": " + names, width_)) + "\n";
  const std::string label = wrap(chart_.x.label, columns_);
  const int before = left_ + std::max(0, (columns_ - display_width(label)) / 2);
  return repeat(" ", before) + paint(Ink::kFaint, label) + "\n";
}

double Plot::column_of(double x) const {
  return left_ + std::clamp(place(x, x_range_, chart_.x.scale), -1.0, 2.0) * (columns_ - 1);
}

double Plot::row_of(double y) const {
  return (1 - std::clamp(place(y, y_range_, chart_.y.scale), -1.0, 2.0)) * (kRows - 1);
}

Mark Plot::mark_of(std::size_t series) const {
  const Series& s = chart_.series[series];
  const int color = color_of(series);
  if (s.look == Look::kPrediction) return {std::string(s.y.empty() ? kBand : kLineGlyph), color};
  return {std::string((s.look == Look::kDashed ? kHollow : kFull)[color]), color};
}

// Returns the names with their marks, in lines.
std::string Plot::legend() const {
  std::vector<std::string> keys;
  bool lines = false;
  bool bands = false;
  for (std::size_t i = 0; i < chart_.series.size(); ++i) {
    const Series& s = chart_.series[i];
    if (!s.name.empty()) {
      keys.push_back(mark_of(i).str() + " " + s.name);
    } else if (s.look == Look::kPrediction) {
      lines = lines || !s.y.empty();
      bands = bands || !s.low.empty();
    }
  }
  if (lines) keys.push_back(std::string(kLineGlyph) + " predicted");
  if (bands) keys.push_back(std::string(kBand) + " still agrees");
  if (has_break(chart_)) keys.push_back(std::string(kBreakGlyph) + " no longer finite");
  if (has_zero_of_log(chart_)) keys.push_back(std::string(kZeroGlyph) + " zero or less");
  std::string text;
  int column = 0;
  for (const std::string& key : keys) {
    const int size = display_width(key);
    const bool fits = column + 3 + size <= width_;
    if (column > 0) text += fits ? "   " : "\n";
    column = size + (column > 0 && fits ? column + 3 : 0);
    text += key;
  }
  return keys.empty() ? "" : text + "\n";
}

void Plot::draw_y_axis() {
  for (int row = 0; row < kRows; ++row) canvas_.write(left_ - 1, row, "│");
  for (const Tick& tick : y_ticks_) {
    const int row = static_cast<int>(std::lround(row_of(tick.value)));
    if (tick.label.empty()) continue;
    canvas_.write(left_ - 2 - display_width(tick.label), row, tick.label);
    canvas_.write(left_ - 1, row, "┤");
  }
}

void Plot::draw_x_axis() {
  canvas_.write(left_ - 1, kRows, "└" + repeat("─", columns_));
  int free = 0;  // the first column after the last label
  for (Tick tick : x_ticks(chart_, x_range_, columns_ / 8)) {
    if (!chart_.x.names.empty()) tick.label = number_of(tick.value);
    const int column = static_cast<int>(std::lround(column_of(tick.value)));
    const int size = display_width(tick.label);
    const int first = std::min(column - size / 2, left_ + columns_ - size);
    canvas_.write(column, kRows, "┬");
    if (size == 0 || first < free) continue;
    canvas_.write(first, kRows + 1, tick.label);
    free = first + size + 1;
  }
}

// Bands are drawn first, so that lines cover them.
void Plot::draw_predictions() {
  for (const bool bands : {true, false}) {
    for (std::size_t i = 0; i < chart_.series.size(); ++i) {
      const Series& s = chart_.series[i];
      if (s.look != Look::kPrediction) continue;
      bands ? shade(i, s.low, s.high, kBand) : shade(i, s.y, s.y, kLineGlyph);
    }
  }
}

void Plot::shade(std::size_t series, const std::vector<double>& low,
                 const std::vector<double>& high, std::string_view glyph) {
  const std::vector<double>& x = chart_.series[series].x;
  const Mark mark{std::string(glyph), color_of(series)};
  const auto is_there = [&](std::size_t i) {
    return i < low.size() && has_place(x[i], chart_.x.scale) && !std::isnan(low[i]) &&
           !std::isnan(high[i]);
  };
  const auto span = [&](std::size_t i) { return Span{row_of(high[i]), row_of(low[i])}; };
  for (std::size_t i = 0; i < low.size(); ++i) {
    if (!is_there(i)) continue;
    const double column = column_of(x[i]);
    if (is_there(i + 1)) {
      shade_between(column, span(i), column_of(x[i + 1]), span(i + 1), mark);
    } else if (i == 0 || !is_there(i - 1)) {
      shade_between(column - kAloneColumns, span(i), column + kAloneColumns, span(i), mark);
    }
  }
}

void Plot::shade_between(double left, Span first, double right, Span last, const Mark& mark) {
  for (long column = std::lround(left); column <= std::lround(right); ++column) {
    if (column < left_) continue;
    const auto row = [&](double from, double to, double at) {
      return std::lerp(from, to,
                       right > left ? std::clamp((at - left) / (right - left), 0., 1.) : 0);
    };
    const double begin = static_cast<double>(column) - 0.5;
    const double end = static_cast<double>(column) + 0.5;
    const double top = std::min(row(first.top, last.top, begin), row(first.top, last.top, end));
    const double bottom =
        std::max(row(first.bottom, last.bottom, begin), row(first.bottom, last.bottom, end));
    for (long r = std::lround(top); r <= std::lround(bottom) && r < kRows; ++r) {
      canvas_.put(static_cast<int>(column), static_cast<int>(r), mark);
    }
  }
}

void Plot::draw_measured() {
  std::vector<std::size_t> measured;
  std::size_t most = 0;
  for (std::size_t i = 0; i < chart_.series.size(); ++i) {
    if (chart_.series[i].look == Look::kPrediction) continue;
    measured.push_back(i);
    most = std::max(most, chart_.series[i].y.size());
  }
  const std::size_t n = measured.size();
  const std::size_t step = kBetweenMarks * most / static_cast<std::size_t>(columns_) + 1;
  for (std::size_t point = 0; point < most; ++point) {
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t turn = (point / step + i) % n;  // later marks cover earlier ones
      const Series& s = chart_.series[measured[turn]];
      const bool is_due = point % step == step * turn / n || breaks_at(s) == point;
      if (is_due && point < s.y.size()) draw_point(measured[turn], point);
    }
  }
}

void Plot::draw_point(std::size_t series, std::size_t point) {
  const Series& s = chart_.series[series];
  const double y = s.y[point];
  if (!has_place(s.x[point], chart_.x.scale)) return;
  const int column = static_cast<int>(std::lround(column_of(s.x[point])));
  if (is_zero_of_log(y, chart_.y)) {
    canvas_.put(column, kRows - 1, {std::string(kZeroGlyph), color_of(series)});
  } else if (std::isfinite(y)) {
    const int row = static_cast<int>(std::lround(row_of(y)));
    const bool breaks = breaks_at(s) == point;
    if (row >= kRows) return;  // below the lower end of the axis
    canvas_.put(column, row,
                breaks ? Mark{std::string(kBreakGlyph), color_of(series)} : mark_of(series));
  }
}

}  // namespace

std::string draw_plot(const Chart& chart, int width) {
  check(chart);
  return chart.maps.empty() ? Plot(chart, width).draw() : draw_heat_plot(chart, width);
}

}  // namespace addnorm::report
