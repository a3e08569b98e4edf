#include "lab/bare_stream.h"

#include <gmock/gmock.h>

#include <cmath>
#include <vector>

#include "support/compare.h"

namespace addnorm::lab {
namespace {

/// A sublayer's output is added to the stream once, and nothing else is added.
TEST(BareStream, OfPreNormIsASum) {
  const StackPlan plan = bare_plan(parse_placements("pre", 2), 4, nullptr);
  BareStream stream(plan);
  std::vector<Matrix<double>> branches(stream.sublayers());
  for (std::size_t l = 0; l < branches.size(); ++l) {
    branches[l].resize(1, 4);
    branches[l](0, l) = 1;
  }
  Matrix<double> x(1, 4);
  x(0, 0) = 5;
  const std::vector<Matrix<double>> reads = stream.forward(x, branches);
  ASSERT_EQ(reads.size(), 5U);
  EXPECT_THAT(reads[0].flat(), ::testing::ElementsAre(5, 0, 0, 0));
  EXPECT_THAT(reads[3].flat(), ::testing::ElementsAre(6, 1, 1, 0));
}

TEST(BareStream, PassesAGradientByTheSkipsAlone) {
  // x′ = α·x without norms gives α to the power of the number of sublayers.
  std::vector<BlockPlacement> placements = parse_placements("none", 3);
  for (BlockPlacement& block : placements) {
    block.attention.skip.initial =
        block.feed_forward.skip.initial = {"0.5", [](Depth) { return 0.5; }};
  }
  BareStream stream(bare_plan(placements, 4, nullptr));
  std::vector<Matrix<double>> branches(stream.sublayers());
  for (Matrix<double>& branch : branches) branch.resize(1, 4);
  Matrix<double> row(1, 4);
  row.fill(64);
  stream.forward(row, branches);
  EXPECT_THAT(stream.backward(row).flat(), ::testing::Each(1));
}

TEST(BareStream, CarriesLanesBySublayersThatGiveNothing) {
  BareStream stream(bare_plan(parse_placements("wide", 2), 4, nullptr));
  Matrix<double> lanes(4, 4);
  lanes(0, 1) = 3;
  lanes(1, 2) = -1;
  const std::vector<Matrix<double>> behind = stream.carry(lanes);
  ASSERT_EQ(behind.size(), 4U);
  EXPECT_EQ(addnorm::testing::to_double(behind[3].flat()),
            addnorm::testing::to_double(lanes.flat()));
}

TEST(Blocks, HaveMean0AndPower1AndNothingInCommon) {
  const Blocks blocks(3);
  const Matrix<double> row = blocks.row(1);
  double sum = 0, squares = 0;
  for (const double v : row.flat()) {
    sum += v;
    squares += v * v;
  }
  EXPECT_EQ(sum, 0);
  EXPECT_NEAR(squares / static_cast<double>(blocks.d_model()), 1, 1e-15);
  EXPECT_THAT(blocks.parts(row.flat()), ::testing::ElementsAre(0, 1, 0));
}

TEST(BareStream, DrawsTheSameOfOneSeedAndOthersOfAnother) {
  const StackPlan plan = bare_plan(parse_placements("mhc", 2), 8, nullptr);
  const auto carry = [&](const MixDraw& draw) { return BareStream(plan, draw).learned()[1].carry; };
  EXPECT_EQ(carry({.spread = 1, .seed = 3}), carry({.spread = 1, .seed = 3}));
  EXPECT_NE(carry({.spread = 1, .seed = 3}), carry({.spread = 1, .seed = 4}));
  EXPECT_EQ(carry({}).at(0), 0);
  EXPECT_EQ(carry({}).at(1), -8);
}

}  // namespace
}  // namespace addnorm::lab
