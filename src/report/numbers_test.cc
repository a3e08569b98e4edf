#include "report/numbers.h"

#include <gmock/gmock.h>

#include <cmath>

namespace addnorm::report {
namespace {

using testing::ElementsAre;

std::vector<std::string> labels(const Range& range, AxisScale scale, int most) {
  std::vector<std::string> found;
  for (const Tick& tick : ticks(range, scale, most)) {
    if (!tick.label.empty()) found.push_back(tick.label);
  }
  return found;
}

TEST(Ticks, LinearStepsAreRoundAndLieInside) {
  EXPECT_THAT(labels({0, 11}, AxisScale::kLinear, 6), ElementsAre("0", "2", "4", "6", "8", "10"));
  EXPECT_THAT(labels({0.1, 0.52}, AxisScale::kLinear, 5),
              ElementsAre("0.1", "0.2", "0.3", "0.4", "0.5"));
  EXPECT_THAT(labels({-1, 1}, AxisScale::kLinear, 4),
              ElementsAre("-1.0", "-0.5", "0", "0.5", "1.0"));
}

TEST(Ticks, LinearLabelsOfSmallAndLargeNumbersHavePowersOfTen) {
  EXPECT_THAT(labels({0, 2e-6}, AxisScale::kLinear, 2), ElementsAre("0", "1×10⁻⁶", "2×10⁻⁶"));
  EXPECT_THAT(labels({0, 1e7}, AxisScale::kLinear, 2), ElementsAre("0", "0.5×10⁷", "1.0×10⁷"));
}

TEST(Ticks, DecadesAreThinnedOutButKeepOne) {
  EXPECT_THAT(labels({1e-12, 1e3}, AxisScale::kLog, 6),
              ElementsAre("10⁻¹²", "10⁻⁹", "10⁻⁶", "10⁻³", "1", "10³"));
  EXPECT_THAT(labels({0.01, 100}, AxisScale::kLog, 6),
              ElementsAre("0.01", "0.1", "1", "10", "100"));
}

TEST(Ticks, ShortLogRangesHaveTicksBetweenDecades) {
  EXPECT_THAT(labels({0.9, 60}, AxisScale::kLog, 6), ElementsAre("1", "2", "5", "10", "20", "50"));
  EXPECT_THAT(labels({1e-9, 7e-9}, AxisScale::kLog, 6), ElementsAre("10⁻⁹", "2×10⁻⁹", "5×10⁻⁹"));
  EXPECT_THAT(labels({1.0, 2.1}, AxisScale::kLog, 5), ElementsAre("1.0", "1.5", "2.0"));
}

TEST(Range, HoldsOnlyWhatHasAPlaceOnTheScale) {
  const std::vector<double> values{-1, 0, 0.5, 2, NAN, HUGE_VAL};
  const Range log = widen({}, values, AxisScale::kLog);
  EXPECT_EQ(log.low, 0.5);
  EXPECT_EQ(log.high, 2);
  EXPECT_EQ(widen({}, values, AxisScale::kLinear).low, -1);
  EXPECT_TRUE(widen({}, std::vector<double>{NAN}, AxisScale::kLinear).empty());
}

TEST(Place, IsMeasuredInDecadesOnALogScale) {
  EXPECT_DOUBLE_EQ(place(1e-3, {1e-4, 1}, AxisScale::kLog), 0.25);
  EXPECT_EQ(place(0, {1e-4, 1}, AxisScale::kLog), -HUGE_VAL);
  EXPECT_DOUBLE_EQ(place(3, {2, 6}, AxisScale::kLinear), 0.25);
}

TEST(FormatNumber, KeepsSignificantDigits) {
  EXPECT_EQ(format_number(0.012345), "0.0123");
  EXPECT_EQ(format_number(12345.6), "12346");
  EXPECT_EQ(format_number(-1.234e-9), "-1.23e-9");
  EXPECT_EQ(format_number(9.999), "10.0");
  EXPECT_EQ(format_number(99999.9), "1.00e5");
  EXPECT_EQ(format_number(0), "0");
  EXPECT_EQ(format_number(NAN), "nan");
  EXPECT_EQ(format_number(5e-324, 1), "5e-324");
}

TEST(FormatSpread, GivesTheMeanToThePlaceOfTheSpread) {
  EXPECT_EQ(format_spread(2.31421, 0.0213), "2.314 ± 0.021");
  EXPECT_EQ(format_spread(231.4, 21.3), "231 ± 21");
  EXPECT_EQ(format_spread(1.5e-9, 2e-10), "(1.50 ± 0.20)e-9");
  EXPECT_EQ(format_spread(2.5, 0), "2.50 ± 0");
  EXPECT_EQ(format_spread(NAN, NAN), "nan ± nan");
}

TEST(FormatCount, GroupsByThousands) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(3152384), "3,152,384");
  EXPECT_EQ(format_count(1, "layer"), "1 layer");
  EXPECT_EQ(format_count(0, "step"), "0 steps");
  EXPECT_EQ(format_count(3000, "step"), "3,000 steps");
}

}  // namespace
}  // namespace addnorm::report
