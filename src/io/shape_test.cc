#include "io/shape.h"

#include <gtest/gtest.h>

namespace addnorm::io {
namespace {

TEST(ShapeTest, IsWrittenAsPythonWritesATuple) {
  EXPECT_EQ(shape_text({}), "()");
  EXPECT_EQ(shape_text({3}), "(3,)");
  EXPECT_EQ(shape_text({2, 0, 5}), "(2, 0, 5)");
}

TEST(ShapeTest, BytesAreTheProduct) {
  EXPECT_EQ(shape_bytes({}, 8), 8);
  EXPECT_EQ(shape_bytes({2, 3}, 4), 24);
  EXPECT_EQ(shape_bytes({2, 0, 5}, 4), 0);
}

TEST(ShapeTest, OverflowIsFoundWhereverTheZeroStands) {
  const std::size_t half = std::size_t{1} << 32;
  EXPECT_EQ(shape_bytes({half, half}, 1), std::nullopt);
  EXPECT_EQ(shape_bytes({half, half / 4}, 4), std::nullopt);
  EXPECT_EQ(shape_bytes({0, half, half}, 4), std::nullopt);
  EXPECT_EQ(shape_bytes({half, half, 0}, 4), std::nullopt);
}

}  // namespace
}  // namespace addnorm::io
