#include "kernels/simd/math.h"

#include <gtest/gtest.h>

#include <limits>

#include "support/compare.h"

// This tests one instruction set; the others have the same bits (instruction_set_test.cc).
namespace addnorm::kernels {
namespace HWY_NAMESPACE {
namespace {

float exp_of(float x) {
  float y;
  store(exp(set<4>(x)), &y, Tail{1});
  return y;
}
float erfc_of(float x) {
  float y;
  store(erfc(set<4>(x)), &y, Tail{1});
  return y;
}
float erf_of(float x) {
  float y;
  store(erf(set<4>(x)), &y, Tail{1});
  return y;
}
float tanh_of(float x) {
  float y;
  store(tanh(set<4>(x)), &y, Tail{1});
  return y;
}
float sigmoid_of(float x) {
  float y;
  store(sigmoid(set<4>(x)), &y, Tail{1});
  return y;
}

TEST(Math, ExpIsWithinAnUlpOrTwo) {
  testing::LargestError worst;
  for (float x = -87.0F; x < 88.3F; x += 0.00371F) {
    worst.add(std::abs(exp_of(x) / std::exp(static_cast<double>(x)) - 1), x);
  }
  EXPECT_LE(worst, 1.5 * std::numeric_limits<float>::epsilon());
}

TEST(Math, ErfcIsAsCloseAsItsCommentSays) {
  testing::LargestError worst, worst_relative;
  for (float x = -6.0F; x < 12.0F; x += 0.00071F) {
    const double exact = std::erfc(static_cast<double>(x));
    const double error = std::abs(erfc_of(x) - exact);
    worst.add(error, x);
    if (x < 3) worst_relative.add(error / exact, x);
  }
  EXPECT_LE(worst, 4e-7);
  EXPECT_LE(worst_relative, 1.2e-6);
}

TEST(Math, ErfAndTanhAreAsCloseAsTheirCommentsSay) {
  testing::LargestError of_erf, of_tanh;
  for (float x = -12.0F; x < 12.0F; x += 0.00071F) {
    const double exact = x;
    of_erf.add(std::abs(erf_of(x) / std::erf(exact) - 1), x);
    of_tanh.add(std::abs(tanh_of(x) / std::tanh(exact) - 1), x);
  }
  for (float x = 1e-30F; x < 0.1F; x *= 1.37F) {  // small values keep their relative precision
    of_erf.add(std::abs(erf_of(x) / std::erf(static_cast<double>(x)) - 1), x);
    of_tanh.add(std::abs(tanh_of(x) / std::tanh(static_cast<double>(x)) - 1), x);
  }
  EXPECT_LE(of_erf, 5e-7);
  EXPECT_LE(of_tanh, 2 * std::numeric_limits<float>::epsilon());
}

TEST(Math, LimitsAndNanStay) {
  for (const float sign : {-1.0F, 1.0F}) {
    EXPECT_EQ(erf_of(sign * INFINITY), sign);
    EXPECT_EQ(tanh_of(sign * INFINITY), sign);
    EXPECT_EQ(erf_of(sign * 1e30F), sign);
    EXPECT_EQ(tanh_of(sign * 1e30F), sign);
  }
  EXPECT_TRUE(std::isnan(erf_of(NAN)));
  EXPECT_TRUE(std::isnan(tanh_of(NAN)));
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
}  // namespace addnorm::kernels
