#include "report/text.h"

#include <gtest/gtest.h>

namespace addnorm::report {
namespace {

TEST(DisplayWidth, CountsColumnsNotBytes) {
  EXPECT_EQ(display_width("loss ± σ"), 8);
  EXPECT_EQ(display_width("漢字"), 4);
  EXPECT_EQ(display_width("e\u0301"), 1);
  EXPECT_EQ(display_width(paint(Ink::kGood, "ok")), 2);
}

TEST(DisplayWidth, SurvivesBrokenText) {
  EXPECT_EQ(display_width("\xe2\x96"), 1);
  EXPECT_EQ(display_width("\xff\x80 a"), 3);
  EXPECT_EQ(display_width("\x1b[38;5"), 0);
  EXPECT_EQ(display_width("\xe2"
                          "a"),
            2);
}

TEST(Pad, FillsUpToTheWidth) {
  EXPECT_EQ(pad("±1", 4, Align::kRight), "  ±1");
  EXPECT_EQ(pad("±1", 4, Align::kLeft), "±1  ");
  EXPECT_EQ(pad("long", 2, Align::kLeft), "long");
}

TEST(Wrap, BreaksAtSpacesAndCutsNothing) {
  EXPECT_EQ(wrap("σ ± one two", 7), "σ ± one\ntwo");
  EXPECT_EQ(wrap("a longerword b", 4), "a\nlongerword\nb");
  EXPECT_EQ(wrap("", 4), "");
}

TEST(Escape, LeavesNothingThatMarkupUnderstands) {
  EXPECT_EQ(escape("<a href=\"x\">&\x1b\x01 µ\n"), "&lt;a href=&quot;x&quot;&gt;&amp; µ\n");
}

}  // namespace
}  // namespace addnorm::report
