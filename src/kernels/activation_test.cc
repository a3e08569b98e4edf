#include "kernels/activation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "addnorm/error.h"
#include "support/norm_case.h"

namespace addnorm::kernels {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr Activation kAll[] = {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh,
                               Activation::kSilu};

template <typename T>
T value(Activation activation, T x) {
  activate<T>(activation, MatrixView<const T>(&x, 1, 1), MatrixView<T>(&x, 1, 1));
  return x;
}
template <typename T>
T derivative(Activation activation, T x) {
  T slope = 1;
  const MatrixView<T> view(&slope, 1, 1);
  activate_backward<T>(activation, {.x = {&x, 1, 1}, .dy = view, .dx = view});
  return slope;
}

template <typename T>
class ActivationTest : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ActivationTest, Types);

TYPED_TEST(ActivationTest, ValuesAndSlopesEqualTheFormulas) {
  using T = TypeParam;
  constexpr double kEpsilon = std::numeric_limits<T>::epsilon();
  constexpr long double kStep = 1e-3L;
  for (const Activation activation : kAll) {
    SCOPED_TRACE(static_cast<int>(activation));
    for (T x = T(-12.03); x < 12; x += T(0.25)) {
      auto f = [&](long double step) { return reference::activation(activation, x + step); };
      const auto slope = static_cast<double>(
          (8 * (f(kStep) - f(-kStep)) - (f(2 * kStep) - f(-2 * kStep))) / (12 * kStep));
      ASSERT_NEAR(value(activation, x), static_cast<double>(f(0)),
                  4 * kEpsilon * (1 + std::abs(x)));
      ASSERT_NEAR(derivative(activation, x), slope, 16 * kEpsilon + 1e-11);
    }
  }
}

TYPED_TEST(ActivationTest, ExactGeluKeepsItsDigitsFarBelowZero) {
  for (const double x : {-1.0, -3.0, -5.0, -8.0}) {
    const auto expected = static_cast<double>(reference::activation(Activation::kGelu, x));
    EXPECT_NEAR(value(Activation::kGelu, static_cast<TypeParam>(x)) / expected, 1,
                16 * x * x * std::numeric_limits<TypeParam>::epsilon());
  }
}

TYPED_TEST(ActivationTest, LargeValuesHaveTheirLimitsAndNanStays) {
  using T = TypeParam;
  const T huge = std::numeric_limits<T>::max();
  for (const Activation activation : kAll) {
    SCOPED_TRACE(static_cast<int>(activation));
    EXPECT_EQ(value<T>(activation, huge), huge);
    EXPECT_EQ(value<T>(activation, -huge), 0);
    EXPECT_EQ(derivative<T>(activation, huge), 1);
    EXPECT_EQ(derivative<T>(activation, -huge), 0);
    EXPECT_TRUE(std::isnan(value<T>(activation, NAN)));
  }
  EXPECT_EQ(value<T>(Activation::kRelu, -INFINITY), 0);
}

// The formula has no slope there; PyTorch's is 0.
TYPED_TEST(ActivationTest, TheSlopeOfReluIsZeroAtZero) {
  using T = TypeParam;
  EXPECT_EQ(derivative<T>(Activation::kRelu, T{0}), 0);
  EXPECT_EQ(derivative<T>(Activation::kRelu, T{-0.0}), 0);
  EXPECT_EQ(derivative<T>(Activation::kRelu, std::numeric_limits<T>::denorm_min()), 1);
  EXPECT_EQ(derivative<T>(Activation::kRelu, -std::numeric_limits<T>::denorm_min()), 0);
}

TEST(ActivationErrors, NameTheArgumentThatIsWrong) {
  Matrix<float> x(3, 4), small(2, 2);
  const MatrixView<const float> in = x;
  EXPECT_THAT([&] { activate<float>(Activation::kRelu, in, small); },
              ThrowsMessage<Error>(HasSubstr("y is 2 × 2")));
  EXPECT_THAT([&] { activate<float>(Activation::kRelu, in, {}); },
              ThrowsMessage<Error>(HasSubstr("y is absent, must be 3 × 4")));
  EXPECT_THAT(
      [&] {
        activate_backward<float>(Activation::kRelu, {in, small, x});
      },
      ThrowsMessage<Error>(HasSubstr("dy is 2 × 2")));
  EXPECT_THAT(
      [&] {
        activate_backward<float>(Activation::kRelu, {in, in, small});
      },
      ThrowsMessage<Error>(HasSubstr("dx is 2 × 2")));
}

}  // namespace
}  // namespace addnorm::kernels
