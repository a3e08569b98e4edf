#include "report/plot.h"

#include <gmock/gmock.h>

#include <cmath>
#include <set>
#include <sstream>

#include "report/terminal.h"
#include "report/text.h"
#include "support/chart_of.h"

namespace addnorm::report::plot_test {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<std::string> lines_of(const Chart& chart, int width, Glyphs glyphs = Glyphs::kUnicode) {
  std::istringstream text(adapt(draw_plot(chart, width), {.glyphs = glyphs}));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

// Returns the columns of the glyph in the line.
std::vector<int> columns_of(std::string_view line, std::string_view glyph) {
  std::vector<int> columns;
  for (int column = 0; !line.empty(); ++column) {
    if (line.starts_with(glyph)) columns.push_back(column);
    line.remove_prefix(first_glyph(line).bytes.size());
  }
  return columns;
}

TEST(Plot, HasItsPointsWhereTheyBelong) {
  Chart chart = chart_of({0, 5, 10});
  chart.y.low = 0;
  chart.y.high = 10;
  const std::vector<std::string> lines = lines_of(chart, 44);
  ASSERT_EQ(lines.size(), 22u);  // title, legend, y label, 16 rows, axis, labels, x label
  EXPECT_EQ(lines[0], "Title");
  EXPECT_EQ(lines[1], "● curve");
  EXPECT_EQ(lines[2], "loss");
  // Labels of two columns, a space and the axis leave 40 columns: from 4 to 43.
  EXPECT_THAT(columns_of(lines[3], "●"), testing::ElementsAre(43));
  EXPECT_THAT(columns_of(lines[18], "●"), testing::ElementsAre(4));
  EXPECT_THAT(lines[3], testing::StartsWith("10 ┤"));
  EXPECT_THAT(lines[18], testing::StartsWith(" 0 ┤"));
}

TEST(Plot, ShowsPredictionsUnderMarks) {
  Chart chart = chart_of({1, 1, 1});
  Series line = chart.series[0];
  line.name = "";
  line.look = Look::kPrediction;
  Series band = line;
  band.y.clear();
  band.low = {0, 0, 0};
  band.high = {2, 2, 2};
  chart.series = {line, band, chart.series[0]};
  const std::vector<std::string> lines = lines_of(chart, 60);
  EXPECT_EQ(lines[1], "▲ curve   ░ predicted   · still agrees");
  const std::string& middle = lines[11];
  EXPECT_EQ(columns_of(middle, "▲").size(), 3u);
  EXPECT_EQ(columns_of(middle, "░").size() + 3, 55u) << middle;
  EXPECT_EQ(columns_of(lines[6], "·").size(), 55u) << lines[6];
}

TEST(Plot, LetsMarksTakeTurnsInTheSamePlace) {
  Chart chart = chart_of({1, 1, 1, 1});
  chart.series.push_back(chart.series[0]);
  std::string all;
  for (const std::string& line : lines_of(chart, 60)) all += line;
  EXPECT_EQ(columns_of(all, "●").size(), 1u + 2);  // and one in the legend
  EXPECT_EQ(columns_of(all, "■").size(), 1u + 2);
}

TEST(Plot, HasAsManyMarksAsShapes) {
  Chart chart = chart_of({1, 2});
  const Series curve = chart.series[0];
  chart.series.clear();
  for (int i = 0; i < 16; ++i) {
    chart.series.push_back(curve);
    chart.series.back().look = i < 8 ? Look::kSolid : Look::kDashed;
  }
  for (const Glyphs glyphs : {Glyphs::kAscii, Glyphs::kUnicode}) {
    std::set<std::string> marks;
    for (const std::string& line : lines_of(chart, 12, glyphs)) {
      const std::size_t name = line.find(" curve");
      if (name != std::string::npos) marks.insert(line.substr(0, name));
    }
    EXPECT_EQ(marks.size(), 16u);
  }
}

TEST(Plot, IsAsWideAsTheTerminalAndAlwaysPrintable) {
  for (const Chart& chart :
       {chart_of({1, 2, NAN}), chart_of({0, 1e-320, 1e308}, AxisScale::kLog), chart_of({}), Chart{},
        chart_of({NAN, NAN}), chart_of({5}), chart_of({-1, 0}, AxisScale::kLog),
        chart_of({HUGE_VAL, -HUGE_VAL}), chart_of({1e-9, 1}, AxisScale::kLog)}) {
    Chart both = chart;
    for (Series series : chart.series) {
      series.low = series.high = series.y;
      series.look = Look::kPrediction;
      both.series.push_back(series);
    }
    for (const int width : {1, 60, 80, 120, 1000}) {
      for (const std::string& line : lines_of(both, width, Glyphs::kAscii)) {
        EXPECT_LE(line.size(), std::max<std::size_t>(21, std::min(width, 100))) << line;
        EXPECT_THAT(line, Not(HasSubstr("?")));
      }
    }
  }
}

TEST(Plot, SaysWhereACurveEndsAndWhereItIsZero) {
  const std::string text = draw_plot(chart_of({1, 0, 2, NAN}, AxisScale::kLog), 60);
  EXPECT_THAT(adapt(text, {}), HasSubstr("● curve   × no longer finite   0 zero or less"));
  EXPECT_EQ(columns_of(adapt(text, {}), "×").size(), 2u);
}

TEST(Plot, HasFewTicksWhereValuesDifferByRounding) {
  for (const AxisScale scale : {AxisScale::kLinear, AxisScale::kLog}) {
    const Chart chart = chart_of({0.2, std::nextafter(0.2, 1), 0.2}, scale);
    EXPECT_EQ(lines_of(chart, 60).size(), 22u);
    EXPECT_EQ(y_range(chart).low, y_range(chart_of({0.2, 0.2, 0.2}, scale)).low);
    EXPECT_EQ(y_range(chart).high, y_range(chart_of({0.2, 0.2, 0.2}, scale)).high);
  }
}

TEST(Plot, CutsOffWhatLiesBeyondTheAxis) {
  Chart chart = chart_of({1, 2, 1e30, -1e30});
  chart.y.low = 0;
  chart.y.high = 4;
  EXPECT_EQ(columns_of(adapt(draw_plot(chart, 60), {}), "●").size(), 3u);
}

}  // namespace
}  // namespace addnorm::report::plot_test
