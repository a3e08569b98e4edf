#include <gmock/gmock.h>

#include <cmath>
#include <regex>
#include <sstream>

#include "addnorm/error.h"
#include "report/plot.h"
#include "report/svg.h"
#include "report/terminal.h"
#include "report/text.h"

namespace addnorm::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// Two maps with rows of different lengths: the second is the first with one changed sign.
Chart two_maps() {
  Chart chart{.title = "Title", .x = {"what is read"}, .y = {"who reads"}, .value = "weight"};
  chart.x.names = {"x", "1"};
  chart.y.names = {"1", "exit"};
  chart.maps = {{"predicted", {{1}, {0.5, 0.25}}}, {"measured", {{1}, {0, -0.25}}}};
  return chart;
}

std::vector<std::string> lines_of(const Chart& chart, int width, Glyphs glyphs = Glyphs::kUnicode) {
  std::istringstream text(adapt(draw_plot(chart, width), {.glyphs = glyphs}));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

/// Colour, opacity, position and title of every cell with a title.
struct DrawnCell {
  std::string color, title;
  double opacity, x, y;
};
std::vector<DrawnCell> cells_of(const std::string& svg) {
  static const std::regex kCell(
      "<path( fill=\"var\\(--c1\\)\")? fill-opacity=\"([0-9.]+)\" d=\"M([0-9.]+),([0-9.]+)h[^>]*>"
      "<title>([^<]*)<");
  std::vector<DrawnCell> cells;
  for (std::sregex_iterator it(svg.begin(), svg.end(), kCell), end; it != end; ++it) {
    cells.push_back({(*it)[1].matched ? "c1" : "c0", (*it)[5], std::stod((*it)[2]),
                     std::stod((*it)[3]), std::stod((*it)[4])});
  }
  return cells;
}

TEST(HeatMapSvg, HasACellForEachNumberThatTellsIt) {
  const std::vector<DrawnCell> cells = cells_of(to_svg(two_maps()));
  ASSERT_EQ(cells.size(), 6u);
  EXPECT_EQ(cells[0].title, "1 ← x: 1.00");
  EXPECT_EQ(cells[1].title, "exit ← x: 0.500");
  EXPECT_EQ(cells[2].title, "exit ← 1: 0.250");
  EXPECT_EQ(cells[5].title, "exit ← 1: -0.250");
  EXPECT_DOUBLE_EQ(cells[0].opacity, 1);
  EXPECT_DOUBLE_EQ(cells[1].opacity, 0.5);
  EXPECT_DOUBLE_EQ(cells[4].opacity, 0);
  EXPECT_DOUBLE_EQ(cells[5].opacity, 0.25);
  EXPECT_EQ(cells[2].color, "c0");
  EXPECT_EQ(cells[5].color, "c1");  // negative
  EXPECT_EQ(cells[1].x, cells[0].x);
  EXPECT_GT(cells[1].y, cells[0].y);  // rows go down
  EXPECT_GT(cells[2].x, cells[1].x);
}

TEST(HeatMapSvg, PutsMapsBesideEachOtherWhereThereIsRoom) {
  const std::vector<DrawnCell> wide = cells_of(to_svg(two_maps(), kWideChart));
  EXPECT_EQ(wide[0].y, wide[3].y);
  EXPECT_LT(wide[0].x, wide[3].x);
  const std::vector<DrawnCell> narrow = cells_of(to_svg(two_maps(), kNarrowChart));
  EXPECT_EQ(narrow[0].x, narrow[3].x);
  EXPECT_LT(narrow[2].y, narrow[3].y);
}

TEST(HeatMapSvg, OfALargeMatrixStaysSmall) {
  Chart chart{.title = "Title", .maps = {{"m", {}}}};
  for (int r = 0; r < 200; ++r) {
    std::vector<double>& row = chart.maps[0].rows.emplace_back();
    for (int c = 0; c < 200; ++c) row.push_back(std::sin(r * c));
  }
  EXPECT_LT(to_svg(chart).size(), 2'000'000u);
}

TEST(HeatMapSvg, MarksWhatIsNotFinite) {
  Chart chart = two_maps();
  EXPECT_THAT(to_svg(chart), Not(HasSubstr("not finite")));
  chart.maps[1].rows[0][0] = NAN;
  EXPECT_THAT(to_svg(chart), HasSubstr("not finite"));
  EXPECT_THAT(to_svg(chart), Not(HasSubstr("opacity=\"nan")));
}

TEST(HeatMaps, OfNothingAreDrawnAndOfTwoKindsRejected) {
  for (const Chart& chart :
       {Chart{.maps = {{"m", {}}}}, Chart{.maps = {{"m", {{}}}}}, Chart{.maps = {{"m", {{0}}}}},
        Chart{.maps = {{"a", {{1}}}, {"b", {}}}}}) {
    EXPECT_THAT(to_svg(chart), HasSubstr("</svg>"));
    EXPECT_NE(draw_plot(chart, 40), "");
  }
  Chart both = two_maps();
  both.series.push_back({"s", {0}, {1}});
  EXPECT_THROW(to_svg(both), Error);
}

TEST(HeatMapPlot, ShadesValuesOnOneScale) {
  const std::vector<std::string> lines = lines_of(two_maps(), 80);
  EXPECT_THAT(lines, ElementsAre("Title", "weight:  · 0  ░ 0.25  ▒ 0.50  ▓ 0.75  █ 1.0",
                                 "              - -0.25  ~ -0.50  = -0.75  % -1.0",
                                 "Down: who reads. Across: what is read.",
                                 "     predicted         measured", "   1 ██              1 ██",
                                 "exit ▒▒░░         exit ··--", "     x 1               x 1"));
}

TEST(HeatMapPlot, StacksMapsAndLeavesOutPlacesWhereThereIsNoRoom) {
  Chart chart{.maps = {{"first", {}}, {"second", {}}}};
  for (HeatMap& map : chart.maps) map.rows.assign(30, std::vector<double>(30, 1));
  EXPECT_EQ(lines_of(chart, 130).size(), 3 + 1 + 30 + 1u);       // side by side, two columns wide
  EXPECT_EQ(lines_of(chart, 70).size(), 3 + 1 + 30 + 1u);        // one wide
  EXPECT_EQ(lines_of(chart, 64).size(), 3 + 2 * (1 + 30 + 1u));  // stacked
  const std::vector<std::string> lines = lines_of(chart, 20);
  std::size_t rows = 0;
  for (const std::string& line : lines) {
    if (!line.ends_with("█")) continue;
    ++rows;
    EXPECT_LE(display_width(line), 20) << line;
  }
  EXPECT_EQ(rows, 2 * 15u);  // every 2nd
}

TEST(HeatMapPlot, IsDrawnInAsciiToo) {
  const std::vector<std::string> lines = lines_of(two_maps(), 80, Glyphs::kAscii);
  EXPECT_THAT(lines[1], HasSubstr("weight:  . 0  : 0.25  + 0.50  * 0.75  # 1.0"));
  EXPECT_THAT(lines[2], HasSubstr("- -0.25  ~ -0.50  = -0.75  % -1.0"));
}

}  // namespace
}  // namespace addnorm::report
