#include "addnorm/nn/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "addnorm/error.h"

namespace addnorm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Placement, TableHasEveryRowOfTheDesign) {
  std::vector<std::string_view> names;
  for (const Placement& placement : placements()) names.push_back(placement.name);
  EXPECT_THAT(names,
              ::testing::UnorderedElementsAre(
                  "none", "plain", "post", "pre", "sandwich", "reordered", "deepnorm", "rezero",
                  "layerscale", "depth-scaled", "admin", "scaled-branch", "keel", "completep",
                  "peri", "depth-scaled-sandwich", "parallel", "stochastic-depth", "highway",
                  "orthogonal", "ngpt", "x0", "two-lanes", "saved-skip", "backout", "residual-dual",
                  "siamese", "span", "hyper", "dynamic-hyper", "altup", "frac", "wide",
                  "identity-hc", "mhc", "mhc-lite", "single-pass-mhc", "dense-former", "mudd",
                  "attention-residuals", "block-attention-residuals"));
}

/// The tutorial relies on this order.
TEST(Placement, RowsThatFiveSlotsDescribeStandFirst) {
  EXPECT_TRUE(std::ranges::is_partitioned(placements(), &Placement::is_plain));
}

TEST(Placement, NumbersOfLanesAreThoseOfTheRows) {
  EXPECT_EQ(starting_lanes(find_placement("mhc"), 0), 4U);
  EXPECT_EQ(starting_lanes(find_placement("hyper"), 16), 16U);
  EXPECT_EQ(lanes_before(parse_placements("attention-residuals", 3), 0, 3), 7U);
  EXPECT_EQ(lanes_before(parse_placements("dense-former", 3), 0, 3), 4U);
  EXPECT_EQ(lanes_before(parse_placements("mudd", 3), 0, 3), 4U);
  EXPECT_THAT([] { starting_lanes(find_placement("mhc"), 1); },
              ThrowsMessage<Error>(HasSubstr("placement \"mhc\" takes from 2 to 16 lanes, not 1")));
  EXPECT_THAT([] { starting_lanes(find_placement("pre"), 4); },
              ThrowsMessage<Error>(HasSubstr("placement \"pre\" takes 1 lane, not 4")));
  EXPECT_THAT([] { lanes_before(parse_placements("dense-former", 3), 4, 0); },
              ThrowsMessage<Error>(HasSubstr("starts with 1 lane")));
}

TEST(Placement, MixturesDifferByLayerAndSublayer) {
  const auto mixed = parse_placements("mix-ln", 7);
  EXPECT_EQ(mixed[0].attention.name, "post");
  EXPECT_EQ(mixed[1].attention.name, "pre");
  const auto hybrid = parse_placements("hybrid", 2);
  EXPECT_EQ(hybrid[0].attention.name, "post");
  EXPECT_EQ(hybrid[1].feed_forward.name, "none");
  EXPECT_EQ(hybrid[1].feed_forward.final_norm, Slot::kNorm);
}

/// The expected numbers of Li et al. 2024: 3 of 12 layers, 6 of 24, 8 of 32.
TEST(Placement, MixLnHasPostNormsInAQuarterOfTheLayers) {
  for (const auto& [layers, posts] : {std::pair{3, 0}, {7, 1}, {12, 3}, {24, 6}, {32, 8}}) {
    const auto blocks = parse_placements("mix-ln", static_cast<std::size_t>(layers));
    EXPECT_EQ(std::ranges::count(blocks, "post",
                                 [](const BlockPlacement& block) { return block.attention.name; }),
              posts)
        << layers;
  }
}

/// Kimi K3 has 93 layers in blocks of 12; the paper has 27 in 9 blocks of 3.
TEST(Placement, BlockAttentionResidualsHaveTheBlocksOfPublishedModels) {
  for (const auto& [layers, blocks] : {std::pair{93, 8}, {27, 9}, {12, 6}, {2, 2}}) {
    const auto depth = static_cast<std::size_t>(layers);
    const auto placement = parse_placements("block-attention-residuals", depth);
    EXPECT_EQ(lanes_before(placement, 0, depth), static_cast<std::size_t>(1 + blocks)) << layers;
  }
}

TEST(Placement, MuddReadsOneMixWhereThereIsTheEmbeddingAlone) {
  const LaneForm& mudd = find_placement("mudd").lanes;
  EXPECT_EQ(mudd.reads({.lanes = 1}), 1U);
  EXPECT_EQ(mudd.reads({.lanes = 2}), 3U);
  EXPECT_EQ(mudd.reads({.sublayer = SublayerKind::kFeedForward, .lanes = 2}), 1U);
}

TEST(Placement, FactorsFollowThePapersAt12Layers) {
  const Depth depth{4, 12};
  const Placement& deepnorm = find_placement("deepnorm");
  EXPECT_DOUBLE_EQ(deepnorm.skip.initial.value(depth), std::sqrt(std::sqrt(24.0)));
  EXPECT_DOUBLE_EQ(deepnorm.initial_gain.value(depth), 1 / std::sqrt(std::sqrt(96.0)));
  EXPECT_DOUBLE_EQ(find_placement("depth-scaled").before_scale.value(depth), 0.5);
  EXPECT_DOUBLE_EQ(find_placement("scaled-branch").gain.initial.value(depth), 1 / std::sqrt(12.0));
  EXPECT_EQ(find_placement("rezero").gain.initial.value(depth), 0);
  EXPECT_EQ(find_placement("plain").skip.initial.value(depth), 0);
}

TEST(Placement, ErrorListsTheKnownNames) {
  EXPECT_THAT([] { find_placement("middle"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("\"middle\""), HasSubstr("post, pre"))));
}

TEST(Placement, DescriptionsMixSublayersAndLayers) {
  const auto blocks = parse_placements("post:2+pre/sandwich", 3);
  ASSERT_EQ(blocks.size(), 3U);
  EXPECT_EQ(blocks[1].attention.name, "post");
  EXPECT_EQ(blocks[1].feed_forward.name, "post");
  EXPECT_EQ(blocks[2].attention.name, "pre");
  EXPECT_EQ(blocks[2].feed_forward.name, "sandwich");
}

TEST(Placement, DescriptionsMustFitTheStack) {
  for (const auto& [wrong, words] : {std::pair{"", "a name is missing"},
                                     {"pre/", "a name is missing"},
                                     {"post:2+", "a name is missing"},
                                     {"post:2", "is for fewer layers than there are: 3"},
                                     {"post:4", "is for more layers than there are: 3"},
                                     {"pre+post", "is for more layers than there are: 3"},
                                     {"post:0+pre", "not a number of layers"},
                                     {"post:x+pre", "not a number of layers"}}) {
    EXPECT_THAT([text = wrong] { parse_placements(text, 3); },
                ThrowsMessage<Error>(HasSubstr(words)))
        << wrong;
  }
}

}  // namespace
}  // namespace addnorm
