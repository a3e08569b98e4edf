#include "kernels/dropout.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/norm_case.h"

namespace addnorm {
namespace {

using testing::same_bits;

constexpr std::size_t kCount = 100'000;

std::vector<double> factors(const Dropout& dropout, std::size_t count = kCount) {
  std::vector<double> values(count);
  dropout_factors<double>(dropout, 0, values);
  return values;
}

/// How often both masks keep or both drop a value.
double agreement(const std::vector<double>& a, const std::vector<double>& b) {
  std::size_t equal = 0;
  for (std::size_t i = 0; i < a.size(); ++i) equal += (a[i] == 0) == (b[i] == 0);
  return static_cast<double>(equal) / static_cast<double>(a.size());
}

/// Five standard deviations of a fraction p among kCount.
double five_sigma(double p) {
  return 5 * std::sqrt(p * (1 - p) / kCount);
}

TEST(Dropout, KeepsTheRightFractionAndScalesIt) {
  for (const double p : {0.01, 0.1, 0.5, 0.9}) {
    std::size_t kept = 0;
    for (const double factor : factors({.probability = p, .seed = 3})) {
      if (factor == 0) continue;
      ++kept;
      ASSERT_DOUBLE_EQ(factor, 1 / (1 - p));
    }
    EXPECT_NEAR(static_cast<double>(kept) / kCount, 1 - p, five_sigma(p));
  }
}

TEST(Dropout, NeighbouringSeedsElementsAndOffsetsAreIndependent) {
  for (const double p : {0.1, 0.5}) {
    const double by_chance = p * p + (1 - p) * (1 - p);
    const auto mask = factors({.probability = p, .seed = 8});
    for (const std::uint64_t seed : {9ull, 1ull << 32 | 8}) {
      EXPECT_NEAR(agreement(mask, factors({.probability = p, .seed = seed})), by_chance,
                  five_sigma(by_chance));
    }
    for (const std::uint64_t offset : {1ull, 4ull, 768ull, 1ull << 40}) {
      EXPECT_NEAR(agreement(mask, factors({.probability = p, .seed = 8, .offset = offset})),
                  by_chance, five_sigma(by_chance));
    }
  }
}

TEST(Dropout, ElementsArePureFunctionsOfSeedAndPlace) {
  const Dropout dropout{.probability = 0.3, .seed = 8};
  const auto all = factors(dropout, 300);
  for (std::size_t first = 0; first < 9; ++first) {
    std::vector<double> part(200);
    dropout_factors<double>(dropout, first, part);
    EXPECT_TRUE(same_bits(part, std::span(all).subspan(first, 200)));
    Dropout moved = dropout;
    moved.offset = first;
    EXPECT_TRUE(same_bits(factors(moved, 200), part));
  }
}

TEST(Dropout, ForwardFusedForwardAndBackwardDropTheSameValues) {
  constexpr std::size_t kRows = 5, kCols = 131;
  Matrix<float> zero(kRows, kCols), one(kRows, kCols);
  Matrix<float> s(kRows, kCols), fused(kRows, kCols), y(kRows, kCols), d_branch(kRows, kCols);
  std::vector<float> d_gain(1);
  one.fill(1);
  const ResidualAdd<float> add{.x = zero,
                               .branch = one,
                               .gain = {.constant = 2},
                               .dropout = {.probability = 0.25, .seed = 4, .offset = 77}};
  residual_add(add, s.view());
  add_norm_forward<float>({}, {.add = add, .sum = fused, .y = y});
  residual_add_backward<float>({.add = add, .d_sum = one, .d_branch = d_branch, .d_gain = d_gain});

  std::vector<float> expected(kRows * kCols);
  dropout_factors<float>(add.dropout, 0, expected);
  float sum = 0;
  for (float& factor : expected) {
    sum += factor;
    factor *= 2;
  }
  EXPECT_TRUE(same_bits(s.flat(), expected));
  EXPECT_TRUE(same_bits(fused.flat(), expected));
  EXPECT_TRUE(same_bits(d_branch.flat(), expected));
  EXPECT_NEAR(d_gain[0], sum, 1e-3);
}

TEST(Dropout, NoProbabilityIsNoDropout) {
  for (const double factor : factors({.seed = 3}, 1000)) ASSERT_EQ(factor, 1);
  EXPECT_FALSE(Dropout{.seed = 3}.active());
}

}  // namespace
}  // namespace addnorm
