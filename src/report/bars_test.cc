#include "report/bars.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "addnorm/error.h"
#include "report/terminal.h"

namespace addnorm::report {
namespace {

const std::vector<std::string> kLabels{"a", "b", "c"};

std::string plain_bars(const std::vector<double>& values, const Range& range = {}) {
  return adapt(draw_bars({.values = values, .labels = kLabels, .range = range}, 20), {});
}

TEST(Bars, StandOnBothSidesOfOneAxis) {
  EXPECT_EQ(plain_bars({-1, 2, 0}),
            "a  -1.000 ███│\n"
            "b   2.000    │██████\n"
            "c   0.000    │\n");
}

TEST(Bars, EndInEighthsOfAColumn) {
  EXPECT_EQ(plain_bars({8, 1.75, 0.01}),
            "a  8.000 │██████████\n"
            "b  1.750 │██▎\n"
            "c  0.010 │\n");
}

TEST(Bars, OfNegativeValuesEndInInvertedBlocks) {
  const std::vector<double> values{-10, -2.8, -1};
  const std::string text = draw_bars({.values = values, .labels = kLabels}, 20);
  EXPECT_NE(text.find("\x1b[7m▌\x1b[27m██"), std::string::npos);
  EXPECT_EQ(adapt(text, {}),
            "a  -10.00 █████████│\n"
            "b   -2.80       ▐██│\n"
            "c   -1.00         █│\n");
}

TEST(Bars, ShareAScaleThroughTheRange) {
  EXPECT_EQ(plain_bars({1, 0, 0}, {0, 10}), "a  1.00 │█▏\nb  0.00 │\nc  0.00 │\n");
}

TEST(Bars, ShowWhatIsNotFinite) {
  EXPECT_EQ(plain_bars({NAN, HUGE_VAL, 1}),
            "a    nan │\n"
            "b    inf │██████████\n"
            "c  1.000 │██████████\n");
  EXPECT_NO_THROW(plain_bars({NAN, HUGE_VAL, -HUGE_VAL}));
}

TEST(Bars, NeverShowASmallNumberAsZero) {
  EXPECT_NE(plain_bars({1, -1e-17, 0}).find(" -1e-17 "), std::string::npos);
  EXPECT_NE(plain_bars({1e-9, 2e-9, 0}).find("1.000e-9"), std::string::npos);
}

TEST(Bars, NeedALabelEach) {
  const std::vector<double> values{1};
  EXPECT_THROW(draw_bars({.values = values, .labels = kLabels}, 20), Error);
}

TEST(Sparkline, HeightsAreDecadesOnALogScale) {
  const std::vector<double> values{1e-8, 1e-6, 1e-4, 1e-2, 1};
  EXPECT_EQ(sparkline(values, AxisScale::kLog), "▁▃▅▇█");
  EXPECT_EQ(sparkline(values, AxisScale::kLinear), "▁▁▁▁█");
}

TEST(Sparkline, ShowsWhatHasNoPlace) {
  const std::vector<double> values{1, NAN, HUGE_VAL, 0, -1, 10};
  EXPECT_EQ(sparkline(values, AxisScale::kLog), "▁?∞0-█");
}

TEST(Sparkline, DoesNotMakeMountainsOutOfNoise) {
  const std::vector<double> values{1, 1.01, 0.99};
  EXPECT_EQ(sparkline(values, AxisScale::kLog), "▅▅▄");
  EXPECT_EQ(sparkline(std::vector<double>{0, 0}, AxisScale::kLinear), "▁▁");
  EXPECT_EQ(sparkline(std::vector<double>{NAN}, AxisScale::kLog), "?");
}

TEST(Sparkline, SharesAScaleThroughTheRange) {
  EXPECT_EQ(sparkline(std::vector<double>{1, 1}, AxisScale::kLog, {1e-6, 1e6}), "▅▅");
}

}  // namespace
}  // namespace addnorm::report
