/// instruction_set_test.cc compares the instruction sets of one machine; this also compares
/// machines. tests/wasm/bits.cc is the same in WebAssembly.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/bits.h"

namespace addnorm::kernels {
namespace {

TEST(SameBits, AreThoseOfEveryMachine) {
  const auto actual = testing::bits_of_this_machine();
  const auto expected = testing::bits_of_every_machine();
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(actual[i] == expected[i]) << fmt::format(
        "{}: norms {:#X}, lanes {:#X}", actual[i].storage, actual[i].norms, actual[i].lanes);
  }
}

}  // namespace
}  // namespace addnorm::kernels
