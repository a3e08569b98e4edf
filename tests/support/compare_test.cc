/// The comparisons that other tests use must fail on NaN and on different lengths, with a message.

#include "support/compare.h"

#include <gtest/gtest-spi.h>

#include <cmath>
#include <string>
#include <vector>

#include "support/gradient_check.h"

namespace addnorm::testing {
namespace {

using Vector = std::vector<double>;

TEST(Compare, GivesTheLargestError) {
  EXPECT_EQ(max_error(Vector{1, 2, -5}, Vector{1, 2.5, -3}), 2);
  EXPECT_EQ(relative_error(Vector{1, 2, -5}, Vector{1, 2.5, -4}), 0.25);
  EXPECT_EQ(relative_error(Vector{1}, Vector{2}, 10), 0.1);
  EXPECT_EQ(relative_error(Vector{0.5, 0}, Vector{0, 0}), 0.5);
  EXPECT_EQ(max_error(Vector{}, Vector{}), 0);
}

TEST(Compare, FailsOnNanWhereverItStands) {
  const Vector numbers{1, 2, 3};
  for (std::size_t at = 0; at < numbers.size(); ++at) {
    Vector broken = numbers;
    broken[at] = NAN;
    double error = 0;
    const std::string message = "the error is NaN at " + std::to_string(at);
    EXPECT_NONFATAL_FAILURE(error = max_error(broken, numbers), message);
    EXPECT_EQ(error, INFINITY);
    EXPECT_NONFATAL_FAILURE(error = max_error(numbers, broken), message);
    EXPECT_EQ(error, INFINITY);
    EXPECT_NONFATAL_FAILURE(error = relative_error(broken, numbers), message);
    EXPECT_EQ(error, INFINITY);
  }
}

TEST(Compare, FailsOnLengthsThatDiffer) {
  double error = 0;
  EXPECT_NONFATAL_FAILURE(error = max_error(Vector{1}, Vector{1, 2}),
                          "there are 1 values, expected 2");
  EXPECT_EQ(error, INFINITY);
}

/// The error for Σx², whose gradient is 2x.
double gradient_error_of_square(const Vector& gradient) {
  Vector x{1, -2, 3};
  return gradient_error(x, gradient, [&] { return x[0] * x[0] + x[1] * x[1] + x[2] * x[2]; });
}

TEST(GradientCheck, FailsOnNanInTheGradient) {
  EXPECT_LT(gradient_error_of_square({2, -4, 6}), 1e-9);
  EXPECT_GT(gradient_error_of_square({2, 4, 6}), 1);
  double error = 0;
  EXPECT_NONFATAL_FAILURE(error = gradient_error_of_square({NAN, NAN, NAN}), "NaN at 0");
  EXPECT_EQ(error, INFINITY);
  EXPECT_NONFATAL_FAILURE(error = gradient_error_of_square({2, -4, NAN}), "NaN at 2");
  EXPECT_EQ(error, INFINITY);
}

TEST(GradientCheck, FailsOnNanInTheLoss) {
  Vector x{1};
  double error = 0;
  EXPECT_NONFATAL_FAILURE(error = gradient_error(x, Vector{1}, [] { return NAN; }), "NaN at 0");
  EXPECT_EQ(error, INFINITY);
}

}  // namespace
}  // namespace addnorm::testing
