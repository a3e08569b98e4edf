#include "base/philox.h"

#include <gmock/gmock.h>

namespace addnorm {
namespace {

using ::testing::ElementsAre;

// The known answers (kat_vectors) of Random123, the authors' own code.
TEST(Philox, GivesTheAuthorsKnownAnswers) {
  EXPECT_THAT(philox(0, 0), ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(philox(~0ull, ~0ull, ~0ull),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(philox(0x299f31d0'a4093822, 0x85a308d3'243f6a88, 0x03707344'13198a2e),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

}  // namespace
}  // namespace addnorm
