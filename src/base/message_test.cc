#include "base/message.h"

#include <gtest/gtest.h>

#include <cmath>

namespace addnorm {
namespace {

const Language kGerman{.translations = {{"{0} of {1}: {2}", "{2}: {1}, davon {0}"},
                                        {"the mean", "der Mittelwert"},
                                        {"nan", "keine Zahl"}},
                       .decimal_comma = true};

TEST(Message, IsInEnglishWhatItsFormatGives) {
  const Message inner = msg("{:.2f} ± {:g}", 1.5, 1e-12);
  EXPECT_EQ(inner.id, "{0} ± {1}");
  EXPECT_EQ(inner.text(), "1.50 ± 1e-12");
  EXPECT_EQ(msg("{} of {}: {}", 2, std::string("{3}"), inner).text(), "2 of {3}: 1.50 ± 1e-12");
  EXPECT_EQ(fmt::format("<{}>", inner), "<1.50 ± 1e-12>");
  EXPECT_EQ(Message(msg("a {0}")).text(), "a {0}");
}

TEST(Message, IsTranslatedWithItsValues) {
  EXPECT_EQ(msg("{} of {}: {}", 1, 2.5, msg("the mean")).text(kGerman),
            "der Mittelwert: 2,5, davon 1");
  EXPECT_EQ(msg("{} is {}", "a.b", 2.5).text(kGerman), "a.b is 2,5");
  EXPECT_EQ(msg("{} is {}", "x", NAN).text(kGerman), "x is keine Zahl");
  EXPECT_EQ(Message::number("1,024.5").text(kGerman), "1.024,5");
}

}  // namespace
}  // namespace addnorm
