#include "kernels/cuda/plan.h"

#include <gtest/gtest.h>

namespace addnorm::kernels::cuda {
namespace {

TEST(CudaPlan, CoversEveryRowOnceAndFitsABlock) {
  for (const KernelShape& shape : {kForward, kBackward, kLanesForward, kLanesBackward}) {
    const std::size_t most = std::size_t{kVector} * shape.row_threads * shape.chunks * kMostBlocks;
    for (std::size_t features = 1; features <= std::min(most, kMostFeatures);
         features += features / 64 + 1) {
      const RowPlan plan = plan_rows(features, shape);
      const std::size_t covered = std::size_t{kVector} * plan.chunks * plan.threads * plan.blocks;
      EXPECT_GE(covered, features);
      EXPECT_LE(plan.threads * plan.rows, std::max(shape.row_threads, shape.block_threads));
      EXPECT_LE(plan.blocks, kMostBlocks);
      EXPECT_TRUE(plan.threads % 32 == 0 || 32 % plan.threads == 0) << plan.threads;
      EXPECT_TRUE(plan.blocks == 1 || plan.rows == 1);
      EXPECT_LE(plan.rows * plan.threads, 1024);
    }
  }
}

TEST(CudaPlan, HoldsARowInOneBlockWithoutClusters) {
  struct Case {
    KernelShape shape, direct;
    std::size_t most;
  };
  for (const Case& of : {Case{kForward, kForward, kMostFeaturesOfBlock},
                         Case{kBackward, kDirectBackward, kMostFeaturesOfBlock},
                         Case{kLanesForward, kDirectLanes, kMostLaneFeaturesOfBlock},
                         Case{kLanesBackward, kDirectLanes, kMostLaneFeaturesOfBlock}}) {
    for (std::size_t features = 1; features <= of.most; features += features / 64 + 1) {
      const RowPlan plan = plan_rows(features, of.shape, of.direct, false);
      EXPECT_EQ(plan.blocks, 1);
      EXPECT_GE(std::size_t{kVector} * plan.chunks * plan.threads, features);
      EXPECT_TRUE(plan.threads % 32 == 0 || 32 % plan.threads == 0) << plan.threads;
      EXPECT_LE(plan.threads * plan.rows, of.direct.row_threads);
      EXPECT_TRUE(!is_wider(plan, of.shape) || plan.rows == 1);
      EXPECT_TRUE(plan.chunks <= of.shape.chunks || plan.chunks == of.direct.chunks);
    }
    EXPECT_EQ(plan_rows(of.most, of.shape, of.direct, false).blocks, 1);
  }
}

TEST(CudaPlan, DependsOnClustersOnlyForRowsWiderThanABlock) {
  for (const std::size_t features : {1, 100, 2048, 4096}) {
    const RowPlan with = plan_rows(features, kBackward, kDirectBackward, true);
    const RowPlan without = plan_rows(features, kBackward, kDirectBackward, false);
    EXPECT_EQ(with.chunks, without.chunks);
    EXPECT_EQ(with.threads, without.threads);
    EXPECT_FALSE(is_wider(without, kBackward));
  }
  EXPECT_GT(plan_rows(4097, kBackward, kDirectBackward, true).blocks, 1);
  EXPECT_TRUE(is_wider(plan_rows(4097, kBackward, kDirectBackward, false), kBackward));
  EXPECT_FALSE(is_wider(plan_rows(2048, kLanesForward, kDirectLanes, false), kLanesForward));
  EXPECT_TRUE(is_wider(plan_rows(2049, kLanesForward, kDirectLanes, false), kLanesForward));
}

TEST(CudaPlan, StridesWithAtMostAsManyBlocksAsThereAreRows) {
  const RowPlan plan = plan_rows(64, kBackward);
  EXPECT_EQ(striding_blocks(plan, 0, 2), 1u);
  EXPECT_EQ(striding_blocks(plan, 1, 2), 1u);
  EXPECT_EQ(striding_blocks(plan, 1'000'000, 2), 264u);
  EXPECT_EQ(striding_blocks(plan_rows(65536, kBackward), 1000, 2), 14u);
  const auto without_clusters = [](std::size_t features, int of_type) {
    const RowPlan plan_of = plan_rows(features, kBackward, kDirectBackward, false);
    return striding_blocks(plan_of, 1'000'000, kBackward, kDirectBackward, of_type, false);
  };
  EXPECT_EQ(without_clusters(4096, 0), 216u);
  EXPECT_EQ(without_clusters(4097, 0), 108u);
  EXPECT_EQ(without_clusters(16384, 1), 108u);
}

}  // namespace
}  // namespace addnorm::kernels::cuda
