#include "lab/figure.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "addnorm/error.h"

namespace addnorm::lab {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

const Series kBand{"c", {1}, {2}, {1}, {4}};

Verdict verdict_of(double measured) {
  return check_curve("claim", "source", {"c", {1}, {measured}}, kBand).verdict();
}
Verdict verdict_of_mean(double measured, double error) {
  return check_mean("claim", "source", {"c", {1}, {measured}, {}, {}, {error}}, kBand).verdict();
}

TEST(Check, IsInsideBetweenItsLimits) {
  EXPECT_EQ((Check{.measured = 1, .low = 1, .high = 2}).verdict(), Verdict::kInside);
  EXPECT_EQ((Check{.measured = 0.9, .low = 1, .high = 2}).verdict(), Verdict::kOutside);
  EXPECT_EQ((Check{.measured = kNan, .low = 1, .high = 2}).verdict(), Verdict::kOutside);
  EXPECT_EQ((Check{.measured = 9, .high = 2, .unmet = "so"}).verdict(), Verdict::kNotApplicable);
}

TEST(Check, OfACurveAsksForEveryPoint) {
  EXPECT_EQ(verdict_of(1), Verdict::kInside);
  EXPECT_EQ(verdict_of(4), Verdict::kInside);
  EXPECT_EQ(verdict_of(0.99), Verdict::kOutside);
  EXPECT_EQ(verdict_of(4.01), Verdict::kOutside);
  for (const double wrong : {kNan, kInfinity, -kInfinity}) {
    EXPECT_EQ(verdict_of(wrong), Verdict::kOutside) << wrong;
    EXPECT_EQ(verdict_of_mean(wrong, 0.1), Verdict::kOutside) << wrong;
    EXPECT_EQ(verdict_of_mean(wrong, kNan), Verdict::kOutside) << wrong;
  }
  const Series measured{"c", {1, 2, 3}, {1, 9, 1}};
  const Series predicted{"c", {1, 2}, {1, 1}, {0, 0}, {2, 2}};
  const Check check = check_curve("claim", "source", measured, predicted);
  EXPECT_DOUBLE_EQ(check.measured, 8);
  EXPECT_THAT(check.detail.text(), HasSubstr("farthest at 2: 9, allowed 0 to 2"));
}

TEST(Check, OfAMeanForgivesFourStandardErrors) {
  EXPECT_EQ(verdict_of_mean(5, 0.2), Verdict::kOutside);     // 5/(1 + 4·0.2/5) = 4.31
  EXPECT_EQ(verdict_of_mean(5, 0.32), Verdict::kInside);     // 3.98
  EXPECT_EQ(verdict_of_mean(0.8, 0.04), Verdict::kOutside);  // 0.96
  EXPECT_EQ(verdict_of_mean(0.8, 0.051), Verdict::kInside);
  EXPECT_EQ(verdict_of_mean(1e20, 0.4e20), Verdict::kOutside);  // an exploding value stays outside
}

TEST(Check, OfAMeanDoesNotJudgeWhatIsTooUncertain) {
  EXPECT_EQ(verdict_of_mean(2, 0.49), Verdict::kInside);  // 4·0.49 of at most 2·1
  EXPECT_EQ(verdict_of_mean(2, 0.51), Verdict::kNotApplicable);
  EXPECT_EQ(verdict_of_mean(2, kNan), Verdict::kNotApplicable);  // fewer than four draws
}

TEST(Check, OfACurveNeedsAPointThatBothHave) {
  EXPECT_THAT(
      [] {
        check_curve("", "", {"a", {1}, {1}}, {"b", {2}, {1}, {0}, {2}});
      },
      ThrowsMessage<Error>(HasSubstr("nothing was measured where 'b' is predicted")));
}

TEST(Series, OfDrawsHasTheirMeanExtremesAndStandardError) {
  const Series mean = mean_curve("c", {0, 1}, {{1, 7}, {1, 7}, {3, 7}, {3, 7}});
  EXPECT_THAT(mean.y, ElementsAre(2, 7));
  EXPECT_THAT(mean.low, ElementsAre(1, 7));
  EXPECT_THAT(mean.high, ElementsAre(3, 7));
  EXPECT_THAT(mean.error, ElementsAre(DoubleEq(std::sqrt(4.0 / 3 / 4)), 0));
  const Series rms = rms_curve("c", {0}, {{1}, {1}, {7}, {7}});
  EXPECT_THAT(rms.y, ElementsAre(2));
  EXPECT_THAT(rms.high, ElementsAre(std::sqrt(7.0)));
  EXPECT_THAT(rms.error, ElementsAre(DoubleEq(std::sqrt(36.0 / 3 / 4) / (2 * 2.0))));
  EXPECT_TRUE(std::isnan(mean_curve("c", {0}, {{1}, {2}, {3}}).error[0])) << "too few";
}

TEST(Figure, TakesItsOwnOptionsForWhatIsNotGiven) {
  const FigureOptions options = complete(find_figure("placement"), {.layers = {2, 3}, .seed = 7});
  EXPECT_THAT(options.layers, ElementsAre(2, 3));
  EXPECT_EQ(options.width, 128);
  EXPECT_EQ(options.seed, 7);
  EXPECT_THAT(options.placements, ElementsAre("post", "pre", "deepnorm"));
}

TEST(Figure, RefusesWhatItCannotRun) {
  const auto refused = [](const char* figure, FigureOptions options, const char* message) {
    EXPECT_THAT([&] { complete(find_figure(figure), options); },
                ThrowsMessage<Error>(HasSubstr(message)));
  };
  refused("layernorm", {.layers = {4}}, "--layers: layernorm has no such option");
  refused("layernorm", {.width = 2000}, "--width is 2000, must be from 16 to 1024");
  refused("variance", {.layers = {1, 2}}, "--layers: variance takes one number");
  refused("variance", {.layers = {97}}, "--layers is 97, must be from 1 to 96");
  refused("placement", {.layers = {6}}, "--layers: placement compares depths");
  refused("placement", {.layers = {6, 6}}, "--layers: 6,6 is not in increasing order");
  refused("placement", {.placements = {"x"}}, "--placement: placement \"x\" is unknown");
  refused("placement", {.placements = {"pre", "pre"}}, "--placement: pre is given twice");
  EXPECT_THAT([] { find_figure("x"); }, ThrowsMessage<Error>(HasSubstr("figure \"x\" is unknown")));
}

TEST(Figure, HasANameForItself) {
  for (const Figure& figure : figures()) EXPECT_EQ(&find_figure(figure.name), &figure);
}

}  // namespace
}  // namespace addnorm::lab
