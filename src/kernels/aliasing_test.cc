#include "kernels/aliasing.h"

#include <gtest/gtest.h>

namespace addnorm::kernels {
namespace {

const void* at(std::uintptr_t address) {
  return reinterpret_cast<const void*>(address);
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
  // With rows of 2048 bytes, 0x900 has the distance of the next row from 0x100.
  EXPECT_EQ(place_in_page({at(0x10100), at(0x20900), at(0x30400)}, {}, 2048), 0x100);
}

}  // namespace
}  // namespace addnorm::kernels
