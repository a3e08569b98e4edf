#include "theory/depth_mixing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "addnorm/error.h"
#include "support/compare.h"

namespace addnorm::theory {
namespace {

using testing::max_error;

std::vector<std::vector<double>> mixing_of(const std::string& placement, std::size_t layers) {
  return depth_mixing({.placements = parse_placements(placement, layers), .d_model = 64});
}

TEST(DepthMixing, IsWhatThePapersSay) {
  // Without a norm on the stream every sublayer reads the plain sum of all before it.
  EXPECT_EQ(mixing_of("none", 2)[3], (std::vector<double>{1, 1, 1, 1, 0}));
  // Hyper-connections start as pre-norm (Zhu et al. 2024), and so do AltUp, DenseFormer and MUDD.
  for (const char* placement : {"hyper", "altup", "dense-former", "mudd"}) {
    EXPECT_EQ(mixing_of(placement, 2)[3], mixing_of("pre", 2)[3]) << placement;
  }
  // Post-norm divides by √2 in each sublayer.
  const double half = 0.5, root = std::sqrt(0.5);
  EXPECT_LT(max_error(mixing_of("post", 1)[2], std::vector<double>{half, half, root}), 1e-15);
  // Attention Residuals: the mean of all earlier outputs.
  EXPECT_LT(max_error(mixing_of("attention-residuals", 2)[3],
                      std::vector<double>{0.25, 0.25, 0.25, 0.25, 0}),
            1e-15);
}

/// The carry is a mixture of all 24 permutations of 4 lanes, whose logits are 0 for the identity
/// and −8 for the others. Of these, 5 keep a given lane in its place, and 6 move it to a given
/// other one.
TEST(DepthMixing, StartsMhcLiteWithAllPermutations) {
  const double small = std::exp(-8), all = 1 + 23 * small;
  for (const LaneNumbers& site : lane_numbers({.placements = parse_placements("mhc-lite", 1)})) {
    ASSERT_EQ(site.lanes, 4u);
    if (site.carry.size() < 16) continue;  // the exit
    for (std::size_t k = 0; k < 16; ++k) {
      const double expected = k / 4 == k % 4 ? (1 + 5 * small) / all : 6 * small / all;
      EXPECT_NEAR(site.carry[k], expected, 1e-14) << k;
    }
  }
}

/// (1 + σ²/α²)^(−L/2), with L = 2N sublayers, for x′ = N(α·x + f), E[f²] = σ².
TEST(DepthMixing, OfXAtTheExitHasAClosedFormForPostNorm) {
  for (const std::size_t layers : {1U, 6U, 24U}) {
    const double sublayers = 2.0 * static_cast<double>(layers);
    const struct {
      const char* placement;
      double skip_squared;
    } rows[] = {{"post", 1}, {"deepnorm", std::sqrt(sublayers)}, {"keel", sublayers * sublayers}};
    for (const auto& row : rows) {
      const double power = 0.3;
      BareStack stack{.placements = parse_placements(row.placement, layers)};
      stack.branch_power.assign(2 * layers, power);
      const double expected = std::pow(1 + power / row.skip_squared, -sublayers / 2);
      EXPECT_NEAR(depth_mixing(stack).back()[0] / expected, 1, 1e-12) << row.placement;
    }
  }
}

TEST(DepthMixing, RefusesWhatItDoesNotCover) {
  EXPECT_THROW(mixing_of("highway", 2), Error);
  EXPECT_FALSE(covers_stream(parse_placements("pre/highway", 2)));
  EXPECT_TRUE(covers_stream(parse_placements("mhc", 2)));
}

TEST(SinkhornKnopp, IsDoublyStochasticAndKeepsRatios) {
  // r_ij·r_kl/(r_il·r_kj) equals that of exp(logits): rows and columns are only divided.
  const std::vector<double> logits{0, -3, 2, 1};
  const std::vector<double> m = sinkhorn_knopp(logits, 2);
  EXPECT_NEAR(m[0] + m[1], 1, 1e-11);
  EXPECT_NEAR(m[0] + m[2], 1, 1e-11);
  EXPECT_NEAR(m[0] * m[3] / (m[1] * m[2]), std::exp(0 + 1 + 3 - 2), 1e-9);
}

TEST(SpectralNorm, IsTheLargestSingularValue) {
  EXPECT_NEAR(spectral_norm({3, 0, 0, -5}, 2), 5, 1e-12);
  EXPECT_NEAR(spectral_norm({0, 2, 0, 0}, 2), 2, 1e-12);
  EXPECT_NEAR(spectral_norm({1, 1, 0, 1}, 2), (1 + std::sqrt(5)) / 2, 1e-12);
  EXPECT_EQ(spectral_norm({0, 0, 0, 0}, 2), 0);
}

}  // namespace
}  // namespace addnorm::theory
