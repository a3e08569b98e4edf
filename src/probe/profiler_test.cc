#include "probe/profiler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "addnorm/matrix.h"
#include "addnorm/torch_generator.h"

namespace addnorm::probe {
namespace {

constexpr Site kSite{2, SublayerKind::kFeedForward, Point::kSum};

TEST(Profiler, MeasuresByDefinition) {
  Matrix<float> values(2, 2);
  values(0, 0) = 3;
  values(0, 1) = -1;
  values(1, 0) = 1;
  values(1, 1) = -5;
  Profiler<float> profiler(2, 7);
  profiler.forward(kSite, values);
  profiler.backward(kSite, values);
  ASSERT_EQ(profiler.entries().size(), 1U);
  const ProfileEntry& e = profiler.entries().front();
  EXPECT_EQ(e.step, 7U);
  EXPECT_DOUBLE_EQ(e.rms, 3);  // √((9 + 1 + 1 + 25)/4)
  EXPECT_DOUBLE_EQ(e.mean, -0.5);
  EXPECT_DOUBLE_EQ(e.std, std::sqrt(9 - 0.25));
  EXPECT_DOUBLE_EQ(e.abs_max, 5);
  EXPECT_DOUBLE_EQ(e.grad_rms, 3);
  EXPECT_NEAR(e.token_cosine, 8 / std::sqrt(10.0 * 26.0), 1e-12);
}

TEST(Profiler, LeavesUnknownWhatItDidNotObserve) {
  Profiler<float> profiler(1);
  profiler.backward(kSite, Matrix<float>(1, 3));
  EXPECT_TRUE(std::isnan(profiler.entries().front().rms));
  EXPECT_EQ(find_entry(profiler.entries(), {0, SublayerKind::kAttention, Point::kX}), nullptr);
}

TEST(Profiler, MeasuresTheScoresOfTheKeysThatAreSeen) {
  constexpr double kUnseen = -std::numeric_limits<double>::infinity();
  Matrix<double> scores(3, 3);
  const double rows[3][3] = {{5, kUnseen, kUnseen},
                             {1, 1 + std::log(3), kUnseen},  // weights of 1/4 and 3/4
                             {-2, -2, -2}};
  for (std::size_t r = 0; r < 3; ++r) std::ranges::copy(rows[r], scores.view().row(r).begin());
  Profiler<double> profiler(3);
  const Site site{1, SublayerKind::kAttention, Point::kScores};
  profiler.forward(site, scores);
  const ProfileEntry& e = profiler.entries().front();
  const double larger = 1 + std::log(3);
  const double mean = (5 + 1 + larger - 6) / 6, square = (25 + 1 + larger * larger + 12) / 6;
  EXPECT_DOUBLE_EQ(e.mean, mean);
  EXPECT_DOUBLE_EQ(e.rms, std::sqrt(square));
  EXPECT_DOUBLE_EQ(e.std, std::sqrt(square - mean * mean));
  EXPECT_EQ(e.abs_max, 5);
  const double entropy = (0.25 * std::log(4) + 0.75 * std::log(4.0 / 3)) / std::log(2);
  EXPECT_NEAR(e.entropy.value(), (entropy + 1) / 2, 1e-12) << "the first query sees a single key";
}

/// A layer that reads (2, 0, 0) and leaves (3, 3, 0), and another token that it leaves as it is.
ProfileEntry layer_end(Detail detail, Point end) {
  Matrix<float> read(2, 3), left(2, 3);
  read(0, 0) = 2;
  left(0, 0) = left(0, 1) = 3;
  read(1, 1) = left(1, 1) = -1;
  Profiler<float> profiler(2, 0, detail);
  profiler.forward({4, SublayerKind::kAttention, Point::kX}, read);
  if (end == Point::kAfter) profiler.forward({4, SublayerKind::kFeedForward, Point::kSum}, read);
  profiler.forward({4, SublayerKind::kFeedForward, end}, left);
  if (end == Point::kAfter) {
    const Site sum{4, SublayerKind::kFeedForward, Point::kSum};
    EXPECT_TRUE(std::isnan(find_entry(profiler.entries(), sum)->layer_cosine));
  }
  return profiler.entries().back();
}

TEST(Profiler, MeasuresHowFarALayerTurnsAtItsEnd) {
  for (const Point end : {Point::kSum, Point::kAfter}) {
    for (const Detail detail : {Detail::kTurns, Detail::kFull}) {
      EXPECT_NEAR(layer_end(detail, end).layer_cosine, (std::sqrt(0.5) + 1) / 2, 1e-12);
    }
    EXPECT_TRUE(std::isnan(layer_end(Detail::kBrief, end).layer_cosine));
  }
  EXPECT_TRUE(std::isnan(layer_end(Detail::kTurns, Point::kSum).abs_median));
  // The fourth number of 0, 0, 0, 1, 3 and 3.
  EXPECT_DOUBLE_EQ(layer_end(Detail::kFull, Point::kSum).abs_median, 1);
}

TEST(TokenCosine, IsOneForEqualDirectionsAndNearZeroForRandomOnes) {
  Matrix<double> tokens(6, 500);
  for (std::size_t r = 0; r < 6; ++r) {
    for (std::size_t i = 0; i < 500; ++i) {
      tokens(r, i) = static_cast<double>((r + 1) * (i % 7));
    }
  }
  EXPECT_NEAR(mean_token_cosine<double>(tokens, 3), 1, 1e-12);
  TorchGenerator(1).fill_normal(tokens.flat());
  EXPECT_NEAR(mean_token_cosine<double>(tokens, 3), 0, 0.1);
}

TEST(TokenCosine, LooksWithinEachSequence) {
  Matrix<double> tokens(4, 2);  // two sequences that point at right angles to each other
  tokens(0, 0) = tokens(1, 0) = tokens(2, 1) = tokens(3, 1) = 2;
  EXPECT_NEAR(mean_token_cosine<double>(tokens, 2), 1, 1e-12);
}

}  // namespace
}  // namespace addnorm::probe
