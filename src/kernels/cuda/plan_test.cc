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

TEST(CudaPlan, StridesWithAtMostAsManyBlocksAsThereAreRows) {
  const RowPlan plan = plan_rows(64, kBackward);
  EXPECT_EQ(striding_blocks(plan, 0, 2), 1u);
  EXPECT_EQ(striding_blocks(plan, 1, 2), 1u);
  EXPECT_EQ(striding_blocks(plan, 1'000'000, 2), 264u);
  EXPECT_EQ(striding_blocks(plan_rows(65536, kBackward), 1000, 2), 14u);
}

}  // namespace
}  // namespace addnorm::kernels::cuda
