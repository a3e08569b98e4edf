#include "bench/job.h"

#include <gmock/gmock.h>

#include "addnorm/error.h"

namespace addnorm::bench {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

TEST(Job, ReadsShapes) {
  EXPECT_EQ(parse_shape("8192x4096"), (Shape{8192, 4096}));
  EXPECT_EQ(parse_shape("1x1"), (Shape{1, 1}));
  EXPECT_EQ(to_text(Shape{64, 768}), "64x768");
}

TEST(Job, RefusesWhatIsNoShape) {
  for (const char* text : {"", "x", "8", "8x", "x8", "0x8", "8x0", "-8x8", "8x8x8", "8 x 8", "ax8",
                           "8X8", "99999999999999999999x1"}) {
    EXPECT_THAT([&] { parse_shape(text); }, ThrowsMessage<Error>(HasSubstr("8192x4096"))) << text;
  }
  EXPECT_THAT([] { parse_shape("4294967296x4294967296"); },
              ThrowsMessage<Error>(HasSubstr("at most 4294967296 values")));
}

TEST(Job, KernelsMoveTheFewestMatrices) {
  for (const Kernel& kernel : all_kernels()) {
    EXPECT_EQ(kernel.add, kernel.name.starts_with("add_")) << kernel.name;
    EXPECT_EQ(kernel.backward, kernel.name.ends_with("_backward")) << kernel.name;
    const std::size_t expected = kernel.add ? 4 : kernel.backward ? 3 : 2;
    EXPECT_EQ(kernel.matrices(), expected) << kernel.name;
  }
  EXPECT_THAT(all_kernels(), SizeIs(8));
}

TEST(Job, TheSweepHasEveryPowerOfTwoThatFits) {
  const std::vector<Shape> shapes = sweep_shapes();
  // 17 × 12, without the 3 + 2 + 1 above 2²⁷: rows 2¹⁶, 2¹⁵ and 2¹⁴ with the widest features.
  EXPECT_THAT(shapes, SizeIs(17 * 12 - 6));
  for (const Shape& shape : {Shape{1, 8}, {1, 16384}, {65536, 8}, {65536, 2048}}) {
    EXPECT_THAT(shapes, Contains(shape));
  }
  EXPECT_THAT(shapes, Not(Contains(Shape{65536, 4096})));
}

TEST(Job, JobsAreInBlocksByType) {
  const std::vector<Job> jobs =
      all_jobs({all_kernels()[0], all_kernels()[1]}, {{4, 8}, {8, 4}, {1, 1}}, {"f32", "bf16"});
  ASSERT_THAT(jobs, SizeIs(12));
  EXPECT_EQ(jobs[5].dtype, "f32");
  EXPECT_EQ(jobs[6].dtype, "bf16");
  EXPECT_EQ(jobs[3].kernel.name, all_kernels()[1].name);
  EXPECT_EQ(jobs[4].shape, (Shape{8, 4}));
}

}  // namespace
}  // namespace addnorm::bench
