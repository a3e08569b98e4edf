#include "kernels/cache.h"

#include <gtest/gtest.h>

namespace addnorm {
namespace {

const void* at(std::uintptr_t address) {
  return reinterpret_cast<const void*>(address);
}

TEST(FirstCache, IsThisMachinesUnlessAnotherIsUsed) {
  const std::size_t own = first_cache();
  EXPECT_GE(own, 4096);
  EXPECT_LE(own, 1 << 20);
  use_first_cache(32768);
  EXPECT_EQ(first_cache(), 32768);
  EXPECT_TRUE(first_cache_is_small());
  use_first_cache(49152);
  EXPECT_FALSE(first_cache_is_small());
  use_first_cache(0);
  EXPECT_EQ(first_cache(), own);
}

TEST(LastCache, IsFilledByAShareOfThisMachinesUnlessAnotherIsUsed) {
  EXPECT_FALSE(fills_last_cache(4096));
  EXPECT_TRUE(fills_last_cache(std::size_t{1} << 40));
  use_last_cache(1 << 20);
  EXPECT_FALSE(fills_last_cache((1 << 20) - 1));
  EXPECT_TRUE(fills_last_cache(1 << 20));
  EXPECT_FALSE(fills_last_cache((1 << 19) - 1, 0.5));
  EXPECT_TRUE(fills_last_cache(1 << 19, 0.5));
  use_last_cache(0);
  EXPECT_FALSE(fills_last_cache(4096));
}

TEST(PlaceInPage, IsFarFromInputsBehindAndOutputsAhead) {
  EXPECT_EQ(place_in_page({at(0x10100)}, {at(0x20100)}, 16384), 0x100);
  EXPECT_EQ(place_in_page({at(0x10100)}, {at(0x20200)}, 16384), 0x980);
  EXPECT_EQ(place_in_page({at(0x10200)}, {at(0x20100)}, 16384), 0x180);
  EXPECT_EQ(place_in_page({at(0x10100), at(0x20200), at(0x30E00)}, {}, 16384), 0xE00);
  EXPECT_EQ(place_in_page({}, {at(0x10100), at(0x20200), at(0x30E00)}, 16384), 0x200);
}

TEST(PlaceInPage, BeginsALineAndDoesNotCountWhatIsAbsent) {
  EXPECT_EQ(place_in_page({at(0x10124), nullptr}, {nullptr}, 16384), 0x100);
  EXPECT_EQ(place_in_page({nullptr}, {}, 16384), 0);
}

TEST(PlaceInPage, TakesPlacesForTheSameThatRowsTakeInTurns) {
  // Rows of 2048 bytes: 0x900 is as far from 0x100 as the next row is.
  EXPECT_EQ(place_in_page({at(0x10100), at(0x20900), at(0x30400)}, {}, 2048), 0x100);
}

}  // namespace
}  // namespace addnorm
