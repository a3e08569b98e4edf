#include "doctor/finding.h"

#include <gtest/gtest.h>

#include <cmath>

namespace addnorm::doctor {
namespace {

TEST(Finding, IsAsBadAsItsNumbersAreFarApart) {
  const auto badness = [](double measured, double expected) {
    return Finding{.measured = measured, .expected = expected}.badness();
  };
  EXPECT_DOUBLE_EQ(badness(8, 2), std::log(4));
  EXPECT_DOUBLE_EQ(badness(2, 8), std::log(4));
  EXPECT_EQ(badness(0, 2), 2);
  EXPECT_EQ(badness(2, 0), 2);
  EXPECT_EQ(badness(-1, 2), 3);
  EXPECT_EQ(badness(NAN, 2), 0);
  EXPECT_EQ(badness(2, NAN), 0);
}

}  // namespace
}  // namespace addnorm::doctor
