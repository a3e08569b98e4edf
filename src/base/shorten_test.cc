#include "base/shorten.h"

#include <gtest/gtest.h>

namespace addnorm {
namespace {

TEST(Shorten, LeavesOutTheMiddle) {
  EXPECT_EQ(shorten("short", 5), "short");
  EXPECT_EQ(shorten("abcdefghijk", 9), "abc…ijk");
  EXPECT_EQ(shorten("abcdefghijk", 10), "abcd…ijk");
  EXPECT_EQ(shorten("abcd", 3), "…");
}

TEST(Shorten, KeepsCharactersWhole) {
  EXPECT_EQ(shorten("ααααααα", 10), "αα…α");
  for (std::size_t most = 3; most < 14; ++most) {
    const std::string text = shorten("ααααααα", most);
    EXPECT_LE(text.size(), most);
    EXPECT_EQ(text.size() % 2, 1U) << text;
  }
}

}  // namespace
}  // namespace addnorm
