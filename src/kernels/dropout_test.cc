#include "kernels/dropout.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/instruction_sets.h"
#include "support/norm_case.h"

namespace addnorm::kernels {
namespace {

using testing::same_bits;

constexpr std::size_t kCount = 100'000;

std::vector<double> factors(const Dropout& dropout, std::size_t count = kCount) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = dropout_factor<double>(dropout, i);
  return values;
}

/// Returns the share of values that both masks keep or both drop.
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

// The kernels compute 64 words at a time; a row may begin at any of them, and anywhere in 64 bits.
TEST(Dropout, KernelsDropWhatTheFormulaSays) {
  for (const std::uint64_t offset :
       {0ull, 1ull, 6ull, 63ull, (1ull << 34) - 20, ~0ull - 999, 4 * 0xFFFFFFFFull - 9}) {
    for (const std::size_t cols : {1, 15, 16, 17, 64, 131}) {
      const Dropout dropout{.probability = 0.4, .seed = 1ull << 40 | 5, .offset = offset};
      Matrix<float> one(3, cols), s(3, cols);
      Matrix<double> one64(3, cols), s64(3, cols);
      one.fill(1);
      one64.fill(1);
      residual_add<float>({one, one, {.constant = 0}, {}, dropout}, s.view());
      residual_add<double>({one64, one64, {.constant = 0}, {}, dropout}, s64.view());
      for (std::size_t i = 0; i < 3 * cols; ++i) {
        ASSERT_EQ(s.data()[i], dropout_factor<float>(dropout, i)) << offset << " + " << i;
        ASSERT_EQ(s64.data()[i], dropout_factor<double>(dropout, i)) << offset << " + " << i;
      }
    }
  }
}

// An element is kept if its word is at least p·2³², so the word itself, as p, keeps it, and the
// next larger number drops it.
TEST(Dropout, DropsTheWordsBelowTheProbabilityAndNotThatWord) {
  constexpr std::size_t kElements = 70;
  constexpr std::uint64_t kSeed = 11;
  Matrix<float> one(1, kElements), s(1, kElements);
  one.fill(1);
  for (const std::string& set : testing::all_instruction_sets()) {
    use_instruction_set(set);
    for (std::size_t i = 0; i < kElements; ++i) {
      SCOPED_TRACE(set + ", element " + std::to_string(i));
      const double word = philox(kSeed, i / 4)[i % 4];
      for (const bool kept : {true, false}) {
        const Dropout dropout{.probability = (word + (kept ? 0 : 1)) / 4294967296.0, .seed = kSeed};
        EXPECT_EQ(dropout_factor<float>(dropout, i) != 0, kept);
        residual_add<float>({one, one, {.constant = 0}, {}, dropout}, s.view());
        EXPECT_EQ(s(0, i) != 0, kept);
      }
    }
  }
  use_instruction_set(testing::all_instruction_sets().front());
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
  float sum = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto factor = dropout_factor<float>(add.dropout, i);
    sum += factor;
    expected[i] = 2 * factor;
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
}  // namespace addnorm::kernels
