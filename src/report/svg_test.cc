#include "report/svg.h"

#include <gmock/gmock.h>

#include <cmath>
#include <string_view>

#include "addnorm/error.h"
#include "support/chart_of.h"

namespace addnorm::report {
namespace {

using testing::HasSubstr;
using testing::Not;

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// Whether each tag is closed in the right place.
bool is_well_formed(std::string_view xml) {
  std::vector<std::string_view> open;
  while (!xml.empty()) {
    const std::size_t end = xml.find('>');
    const std::string_view tag = xml.substr(1, end - 1);
    const std::string_view name = tag.substr(0, tag.find_first_of(" /", 1));
    if (xml[0] != '<' || end == xml.npos || tag.find('<') != tag.npos) return false;
    if (count(tag, "\"") % 2 != 0) return false;
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1)) return false;
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      open.push_back(name);
    }
    xml.remove_prefix(std::min(xml.find_first_of("<>", end + 1), xml.size()));
  }
  return open.empty();
}

TEST(Svg, IsWellFormedWhateverTheTextAndTheNumbers) {
  for (const Chart& chart :
       {chart_of({1, 2, NAN}), chart_of({0, 1e-9, 1e30}, AxisScale::kLog), chart_of({}), Chart{},
        chart_of({NAN, NAN}), chart_of({5}), chart_of({-1, 0}, AxisScale::kLog)}) {
    Chart odd = chart;
    odd.title = odd.x.label = odd.y.label = "a < \"b\" & c\x1b";
    for (Series& series : odd.series) series.name = odd.title;
    for (int width : {kWideChart, kNarrowChart}) {
      const std::string svg = to_svg(odd, width);
      EXPECT_TRUE(is_well_formed(svg)) << svg;
      for (const char* part : {"nan,", ",nan", "inf,", ",inf", "\"nan", "\"inf"}) {
        EXPECT_EQ(count(svg, part), 0u) << svg;
      }
    }
  }
}

TEST(Svg, SaysInWordsWhatItShows) {
  const std::string svg = to_svg(chart_of({7, 3, 2.5}));
  EXPECT_THAT(svg, HasSubstr("role=\"img\""));
  EXPECT_THAT(svg, HasSubstr("<title>Title</title>"));
  EXPECT_THAT(svg, HasSubstr("<desc>loss over step. curve: 7.00 at 0, 2.50 at 2.00.</desc>"));
}

TEST(Svg, KeepsGapsOpen) {
  const std::string svg = to_svg(chart_of({1, 2, NAN, 3, 4}));
  EXPECT_EQ(count(svg, "<path class=\"line solid\""),
            3u);  // in the legend and on both sides of the gap
  EXPECT_THAT(svg, Not(HasSubstr("no longer finite")));
}

TEST(Svg, MarksWhereACurveDiverged) {
  const std::string svg = to_svg(chart_of({1, 2, HUGE_VAL, NAN}));
  EXPECT_EQ(count(svg, "class=\"cross\""), 2u);  // in the legend and at the end of the curve
  EXPECT_THAT(svg, HasSubstr("then no longer finite."));
}

TEST(Svg, ShowsZerosOfALogScale) {
  EXPECT_THAT(to_svg(chart_of({0, 1e-3, 1}, AxisScale::kLog)), HasSubstr("zero or less"));
  EXPECT_THAT(to_svg(chart_of({0, 1e-3, 1})), Not(HasSubstr("zero or less")));
}

TEST(Svg, NamesACurveThatCannotBeShown) {
  EXPECT_THAT(to_svg(chart_of({NAN, NAN})), HasSubstr("curve: nothing to show"));
}

TEST(Svg, HasLegibleDecades) {
  const std::string svg = to_svg(chart_of({1e-9, 1}, AxisScale::kLog));
  EXPECT_THAT(svg, HasSubstr(">10⁻⁸</text>"));
}

TEST(Svg, CutsOffWhatLiesBeyondTheAxis) {
  Chart chart = chart_of({1, 2, 1e30});
  chart.y.high = 4;
  const std::string svg = to_svg(chart);
  EXPECT_THAT(svg, HasSubstr(">4.0</text>"));
  EXPECT_EQ(count(svg, "class=\"full\""), 3u);  // the legend's and those of two points
}

TEST(Svg, SharesAColorButNotALook) {
  Chart chart = chart_of({1, 2});
  chart.series.push_back(chart.series[0]);
  chart.series[1].look = Look::kPrediction;
  chart.series[1].color = 0;
  const std::string svg = to_svg(chart);
  EXPECT_THAT(svg, HasSubstr("class=\"line prediction\""));
  EXPECT_THAT(svg, Not(HasSubstr("color:var(--c1)")));
}

TEST(Svg, DrawsABandThatReachesBelowALogScale) {
  Chart chart = chart_of({1, 2}, AxisScale::kLog);
  chart.series[0].low = {-1, 0};
  chart.series[0].high = {2, HUGE_VAL};
  EXPECT_EQ(count(to_svg(chart), "<path class=\"band solid\""), 1u);
}

TEST(Svg, WrapsWhatIsTooLongForAPhone) {
  Chart chart = chart_of({1, 2});
  chart.title = "A title that is longer than what a phone is wide";
  EXPECT_EQ(count(to_svg(chart, kWideChart), "class=\"title\""), 1u);
  EXPECT_EQ(count(to_svg(chart, kNarrowChart), "class=\"title\""), 2u);
}

TEST(Svg, ShowsAPredictionForASinglePoint) {
  Chart chart = chart_of({5});
  chart.series[0].look = Look::kPrediction;
  chart.series[0].low = {4};
  chart.series[0].high = {6};
  const std::string svg = to_svg(chart);
  EXPECT_THAT(svg, Not(HasSubstr("class=\"full\""))) << "it looks measured";
  EXPECT_THAT(
      svg, ::testing::ContainsRegex("line prediction\" d=\"M[0-9.]+,([0-9.]+)L[0-9.]+,[0-9.]+\""));
}

TEST(Svg, PutsChartsOnASheet) {
  Chart second = chart_of({4, 8});
  second.title = "Second";
  const ChartSheet sheet{.title = "Both < all",
                         .lead = {"A question?", "An answer."},
                         .parts = {{chart_of({1, 2}), "One & two."}, {second, "Four."}}};
  for (int width : {kWideChart, kNarrowChart}) {
    const std::string svg = to_svg(sheet, width);
    EXPECT_TRUE(is_well_formed(svg)) << svg;
    EXPECT_EQ(count(svg, "xmlns="), 1u);
    EXPECT_EQ(count(svg, "<style>"), 1u);
    EXPECT_EQ(count(svg, "<svg y="), 2u);
    EXPECT_THAT(svg, HasSubstr("<title>Both &lt; all</title>"));
    for (const char* part : {">A question?</text>", ">One &amp; two.</text>", ">Second</text>",
                             "Second: loss over step. curve: 4.00 at 0, 8.00 at 1.00."}) {
      EXPECT_THAT(svg, HasSubstr(part));
    }
  }
}

TEST(Svg, RefusesWhatMakesNoChart) {
  Chart lengths = chart_of({1, 2});
  lengths.series[0].x.pop_back();
  EXPECT_THROW(to_svg(lengths), Error);
  Chart band = chart_of({1, 2});
  band.series[0].low = {1, 2};
  EXPECT_THROW(to_svg(band), Error);
  Chart axis = chart_of({1, 2}, AxisScale::kLog);
  axis.y.low = 0;
  EXPECT_THROW(to_svg(axis), Error);
}

}  // namespace
}  // namespace addnorm::report
