#include <gtest/gtest.h>

#include <limits>

#include "kernels/math-inl.h"

// One instruction set here; the others give the same bits (instruction_set_test.cc).
namespace addnorm {
namespace HWY_NAMESPACE {
namespace {

float exp_of(float x) {
  float y;
  store(exp(set<4>(x)), &y, Part{1});
  return y;
}
float erfc_of(float x) {
  float y;
  store(erfc(set<4>(x)), &y, Part{1});
  return y;
}
float sigmoid_of(float x) {
  float y;
  store(sigmoid(set<4>(x)), &y, Part{1});
  return y;
}

TEST(Math, ExpIsWithinAnUlpOrTwo) {
  double worst = 0;
  for (float x = -87.0F; x < 88.3F; x += 0.00371F) {
    worst = std::max(worst, std::abs(exp_of(x) / std::exp(static_cast<double>(x)) - 1));
  }
  EXPECT_LE(worst, 1.5 * std::numeric_limits<float>::epsilon());
}

TEST(Math, ErfcIsAsCloseAsItsCommentSays) {
  double worst = 0, worst_relative = 0;
  for (float x = -6.0F; x < 12.0F; x += 0.00071F) {
    const double exact = std::erfc(static_cast<double>(x));
    const double error = std::abs(erfc_of(x) - exact);
    worst = std::max(worst, error);
    if (x < 3) worst_relative = std::max(worst_relative, error / exact);
  }
  EXPECT_LE(worst, 4e-7);
  EXPECT_LE(worst_relative, 1.2e-6);
}

TEST(Math, LimitsAndNanStay) {
  EXPECT_EQ(exp_of(-INFINITY), 0.0F);
  EXPECT_EQ(exp_of(-1e30F), 0.0F);
  EXPECT_EQ(exp_of(0.0F), 1.0F);
  EXPECT_EQ(exp_of(INFINITY), INFINITY);
  EXPECT_EQ(exp_of(1e30F), INFINITY);
  EXPECT_TRUE(std::isnan(exp_of(NAN)));
  EXPECT_EQ(erfc_of(INFINITY), 0.0F);
  EXPECT_EQ(erfc_of(-INFINITY), 2.0F);
  EXPECT_TRUE(std::isnan(erfc_of(NAN)));
  EXPECT_EQ(sigmoid_of(-1e30F), 0.0F);
  EXPECT_EQ(sigmoid_of(1e30F), 1.0F);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace addnorm
