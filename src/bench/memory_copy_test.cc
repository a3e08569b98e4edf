#include "bench/memory_copy.h"

#include <gmock/gmock.h>

#include "addnorm/matrix.h"

namespace addnorm::bench {
namespace {

TEST(MemoryCopy, CopiesEveryByteAndNoMore) {
  for (const std::size_t size : {0, 1, 63, 64, 65, 1000, 65535, 65536, 300001}) {
    for (const Stores stores : {Stores::kOrdinary, Stores::kNonTemporal}) {
      Matrix<std::byte> from(1, size + 1), to(1, size + 1);
      for (std::size_t i = 0; i <= size; ++i) from(0, i) = static_cast<std::byte>(1 + i % 251);
      memory_copy(from.data(), to.data(), size, stores);
      EXPECT_TRUE(std::equal(from.data(), from.data() + size, to.data())) << size;
      EXPECT_EQ(to(0, size), std::byte{0}) << size;
    }
  }
}

}  // namespace
}  // namespace addnorm::bench
