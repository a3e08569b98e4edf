#include "kernels/math.h"

#include <gtest/gtest.h>

#include <limits>

namespace addnorm {
namespace {

TEST(Math, ExpIsWithinAnUlpOrTwo) {
  double worst = 0;
  for (float x = -87.0F; x < 88.3F; x += 0.00371F) {
    worst = std::max(worst, std::abs(math::exp(x) / std::exp(static_cast<double>(x)) - 1));
  }
  EXPECT_LE(worst, 1.5 * std::numeric_limits<float>::epsilon());
}

TEST(Math, ErfcIsAsCloseAsItsCommentSays) {
  double worst = 0, worst_relative = 0;
  for (float x = -6.0F; x < 12.0F; x += 0.00071F) {
    const double exact = std::erfc(static_cast<double>(x));
    const double error = std::abs(math::erfc(x) - exact);
    worst = std::max(worst, error);
    if (x < 3) worst_relative = std::max(worst_relative, error / exact);
  }
  EXPECT_LE(worst, 4e-7);
  EXPECT_LE(worst_relative, 1.2e-6);
}

TEST(Math, LimitsAndNanStay) {
  EXPECT_EQ(math::exp(-INFINITY), 0.0F);
  EXPECT_EQ(math::exp(-1e30F), 0.0F);
  EXPECT_EQ(math::exp(0.0F), 1.0F);
  EXPECT_EQ(math::exp(INFINITY), INFINITY);
  EXPECT_EQ(math::exp(1e30F), INFINITY);
  EXPECT_TRUE(std::isnan(math::exp(NAN)));
  EXPECT_EQ(math::erfc(INFINITY), 0.0F);
  EXPECT_EQ(math::erfc(-INFINITY), 2.0F);
  EXPECT_TRUE(std::isnan(math::erfc(NAN)));
  EXPECT_EQ(math::sigmoid(-1e30F), 0.0F);
  EXPECT_EQ(math::sigmoid(1e30F), 1.0F);
}

}  // namespace
}  // namespace addnorm
