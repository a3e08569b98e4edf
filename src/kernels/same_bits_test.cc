/// Compares bits between machines; instruction_set_test.cc compares the instruction sets of one
/// machine. tests/wasm/bits.cc does the same in WebAssembly.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>

#include "support/bits.h"

namespace addnorm::testing {

void PrintTo(const Bits& bits, std::ostream* out) {
  *out << bits.storage;
}

}  // namespace addnorm::testing

namespace addnorm::kernels {
namespace {

class SameBits : public ::testing::TestWithParam<testing::Bits> {};

TEST_P(SameBits, AreThoseOfEveryMachine) {
  const testing::Bits& expected = GetParam();
  const auto all = testing::bits_of_this_machine();
  const auto actual = std::ranges::find(all, expected.storage, &testing::Bits::storage);
  ASSERT_NE(actual, all.end());
  EXPECT_TRUE(*actual == expected)
      << fmt::format("norms {:#X}, lanes {:#X}", actual->norms, actual->lanes);
}

INSTANTIATE_TEST_SUITE_P(Storage, SameBits, ::testing::ValuesIn(testing::bits_of_every_machine()),
                         [](const auto& test) {
                           std::string name(test.param.storage);
                           std::ranges::replace(name, ' ', '_');
                           return name;
                         });

}  // namespace
}  // namespace addnorm::kernels
