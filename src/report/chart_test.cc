#include "report/chart.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace addnorm::report::chart_test {
namespace {

Range y_range_of(const std::vector<double>& values, const Axis& axis = {}) {
  Chart chart{.y = axis, .series = {{.name = "curve", .y = values}}};
  for (std::size_t i = 0; i < values.size(); ++i) {
    chart.series[0].x.push_back(static_cast<double>(i));
  }
  return y_range(chart);
}

double span(const Range& range) {
  return range.high - range.low;
}

TEST(Chart, DoesNotMagnifyTheNoiseOfNearlyEqualValues) {
  const std::vector<double> noises[] = {
      {0.99988, 0.99991, 0.99994}, {1e-3, 1.0001e-3}, {-5, -5.001}, {3e20, 3.001e20}, {7, 7, 7}};
  for (const AxisScale scale : {AxisScale::kLinear, AxisScale::kLog}) {
    for (const std::vector<double>& values : noises) {
      if (scale == AxisScale::kLog && values[0] < 0) continue;
      const Range range = y_range_of(values, {.scale = scale});
      EXPECT_GE(span(range), 0.05 * std::abs(values[0]));
      EXPECT_LE(span(range), 1.2 * std::abs(values[0]));
      for (const double value : values) {  // in the middle
        EXPECT_NEAR((value - range.low) / span(range), 0.5, 0.05);
      }
    }
  }
}

TEST(Chart, ShowsDifferencesThatCountInFullHeight) {
  for (const std::vector<double>& values :
       {std::vector<double>{2.3, 3.1}, {0.9, 1}, {-1, 1}, {0, 1e-9}, {100, 106}}) {
    EXPECT_GE(span(y_range_of(values)), values[1] - values[0]);
    EXPECT_LE(span(y_range_of(values)), 1.09 * (values[1] - values[0]));
  }
}

TEST(Chart, KeepsTheEndsThatAnAxisSets) {
  const std::vector<double> values{0.99988, 0.99994};
  const Range up_to_one = y_range_of(values, {.high = 1});
  EXPECT_EQ(up_to_one.high, 1);
  EXPECT_GE(span(up_to_one), 0.05);
  EXPECT_LE(up_to_one.low, 0.99988);
  const Range from = y_range_of(values, {.low = 0.9998});
  EXPECT_EQ(from.low, 0.9998);
  EXPECT_GE(span(from), 0.05);
  const Range both = y_range_of(values, {.low = 0.9998, .high = 1});
  EXPECT_EQ(both.low, 0.9998);
  EXPECT_EQ(both.high, 1);
}

TEST(Chart, ShowsNoNegativePlaceForValuesThatCannotBeNegative) {
  EXPECT_EQ(y_range_of({0, 0, 0}).low, 0);
  EXPECT_EQ(y_range_of({1e-4, 3e-4}, {.bounds = {{0, 1}}}).low, 0);
}

TEST(Chart, MeasuresCosinesAndSharesByWhatTheyCanBe) {
  const Axis cosine{.bounds = {{-1, 1}}};
  const Axis share{.bounds = {{0, 1}}};
  const Range small = y_range_of({-0.002, 0.003}, cosine);
  EXPECT_NEAR(span(small), 1.08 * 0.1, 1e-9);
  EXPECT_NEAR((small.low + small.high) / 2, 0.0005, 1e-9);
  EXPECT_NEAR(span(y_range_of({-0.2, 0.3}, cosine)), 1.08 * 0.5, 1e-9);
  const Range entropy = y_range_of({0.99988, 0.99994}, share);
  EXPECT_NEAR(entropy.low, 0.95 - 0.04 * 0.05, 1e-9);
  EXPECT_NEAR(entropy.high, 1 + 0.04 * 0.05, 1e-9) << "no place beyond 1 but the margin";
  EXPECT_GE(y_range_of({0.99, 1.0000002}, share).high, 1.0000002);
}

TEST(Chart, ShowsAFewStepsOfManyInFullWidth) {
  const Chart chart{.series = {{.name = "curve", .x = {10000, 10050}, .y = {1, 2}}}};
  EXPECT_EQ(x_range(chart).low, 10000);
  EXPECT_EQ(x_range(chart).high, 10050);
}

}  // namespace
}  // namespace addnorm::report::chart_test
