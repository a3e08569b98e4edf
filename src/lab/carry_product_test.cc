#include "lab/carry_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace addnorm::lab {
namespace {

TEST(CarryProduct, LeavesOfDifferencesWhatItCarriesOfThem) {
  EXPECT_DOUBLE_EQ(difference_left({1, 0, 0, 1}, 2), 1);
  EXPECT_DOUBLE_EQ(difference_left({0.9, 0, 0, 0.9}, 2), 0.9);
  EXPECT_NEAR(difference_left({0.6, 0.6, 0.6, 0.6}, 2), 0, 1e-15);  // all lanes become equal
  EXPECT_DOUBLE_EQ(difference_left({0, 0, 0, 0}, 2), 0);
  EXPECT_DOUBLE_EQ(difference_left({2, 0, 0, -1}, 2), 0.5);  // (1, −1) becomes (2, 1)
}

// The second singular value of 0.8·I + 0.2·J; all other singular values but the first are equal to
// it.
TEST(CarryProduct, OfDoublyStochasticMatricesIsItsDistanceFromTheMean) {
  const double off = 0.2 / 3, on = 0.8 + off;
  const std::vector<double> a{on, off, off, off, on, off, off, off, on};
  double squares = 0;
  for (const double entry : a) squares += (entry - 1.0 / 3) * (entry - 1.0 / 3);
  EXPECT_NEAR(difference_left(a, 3), std::sqrt(squares / 2), 1e-15);
  EXPECT_NEAR(difference_left(a, 3), 0.8, 1e-15);
}

}  // namespace
}  // namespace addnorm::lab
