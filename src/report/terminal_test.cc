#include "report/terminal.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "report/text.h"

namespace addnorm::report {
namespace {

using namespace std::string_literals;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

// A terminal of 100 columns: text written to `screen` can be read from `user`. Both are null on a
// system without pseudo-terminals (a bare chroot).
struct PseudoTerminal {
  PseudoTerminal() {
    const int fd = posix_openpt(O_RDWR | O_NOCTTY);
    if (fd < 0 || grantpt(fd) != 0 || unlockpt(fd) != 0) return;
    user = File(fdopen(fd, "r"), std::fclose);
    screen = File(std::fopen(ptsname(fd), "w"), std::fclose);
    const winsize size{.ws_row = 24, .ws_col = 100, .ws_xpixel = 0, .ws_ypixel = 0};
    EXPECT_EQ(ioctl(fd, TIOCSWINSZ, &size), 0);
  }
  std::string read() {
    char text[4096];
    const ssize_t size = ::read(fileno(user.get()), text, sizeof text);
    return {text, static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
  }

  File user{nullptr, std::fclose};
  File screen{nullptr, std::fclose};
};

// Each test sets the relevant variables and restores them.
class TerminalTest : public testing::Test {
 protected:
  TerminalTest() { clear(); }
  void SetUp() override {
    if (pty_.screen == nullptr) GTEST_SKIP() << "there are no pseudo-terminals here";
  }
  ~TerminalTest() override { clear(); }

  static void clear() {
    for (const char* name : {"NO_COLOR", "TERM", "COLUMNS", "LC_ALL", "LC_CTYPE", "LANG"}) {
      unsetenv(name);
    }
  }

  PseudoTerminal pty_;
  File file_{std::tmpfile(), std::fclose};
};

TEST_F(TerminalTest, HasColorAndItsOwnWidth) {
  setenv("COLUMNS", "60", 1);
  const Style style = detect_style(pty_.screen.get());
  EXPECT_EQ(style.color, Color::kOn);
  EXPECT_EQ(style.cursor, Cursor::kMovesBack);
  EXPECT_EQ(style.width, 100);
}

TEST_F(TerminalTest, HonoursNoColor) {
  setenv("NO_COLOR", "1", 1);
  const Style style = detect_style(pty_.screen.get());
  EXPECT_EQ(style.color, Color::kOff);
  EXPECT_EQ(style.cursor, Cursor::kMovesBack);
}

TEST_F(TerminalTest, HonoursADumbTerminal) {
  setenv("TERM", "dumb", 1);
  const Style style = detect_style(pty_.screen.get());
  EXPECT_EQ(style.color, Color::kOff);
  EXPECT_EQ(style.cursor, Cursor::kOnlyAdvances);
}

TEST_F(TerminalTest, IsNoTerminalInAFile) {
  const Style style = detect_style(file_.get());
  EXPECT_EQ(style.color, Color::kOff);
  EXPECT_EQ(style.cursor, Cursor::kOnlyAdvances);
  EXPECT_EQ(style.width, 80);
  setenv("COLUMNS", "60", 1);
  EXPECT_EQ(detect_style(file_.get()).width, 60);
  setenv("COLUMNS", "many", 1);
  EXPECT_EQ(detect_style(file_.get()).width, 80);
}

TEST_F(TerminalTest, KnowsTheEncodingOfTheLocale) {
  EXPECT_EQ(detect_style(file_.get()).glyphs, Glyphs::kUnicode);
  setenv("LANG", "C", 1);
  EXPECT_EQ(detect_style(file_.get()).glyphs, Glyphs::kAscii);
  setenv("LC_ALL", "en_US.utf8", 1);
  EXPECT_EQ(detect_style(file_.get()).glyphs, Glyphs::kUnicode);
}

TEST_F(TerminalTest, AdaptsTextToWhatTheOutputShows) {
  const std::string text = paint(Ink::kGood, "2 ± 1 █▁");
  EXPECT_EQ(adapt(text, {.color = Color::kOn}), text);
  EXPECT_EQ(adapt(text, {}), "2 ± 1 █▁");
  EXPECT_EQ(adapt(text, {.glyphs = Glyphs::kAscii}), "2 ~ 1 #_");
  EXPECT_EQ(adapt("漢\x1b[7m", {.glyphs = Glyphs::kAscii}), "?? ");
  EXPECT_EQ(adapt("10⁻¹⁰ 5×10² 10", {.glyphs = Glyphs::kAscii}), "1e-10 5x1e2 10");
}

// The name of a tensor could otherwise set the terminal's title, hide a finding or move the cursor.
TEST_F(TerminalTest, ObeysNoCodesInNames) {
  for (const Color color : {Color::kOn, Color::kOff}) {
    const Style style{.color = color};
    for (const char* code : {"\x1b]0;title\x07", "\x1b[2J", "\x1b[8mhidden", "\x1b[1;1H", "\x1b",
                             "\x1bP1$r\x1b\\", "\r", "\b\b", "\x7f",
                             "\xc2\x9b"
                             "2J",
                             "\x9b"
                             "2J",
                             "\x84", "\u202eabc", "\u2066", "\x0e", "\x1b[38;5;1;8m"}) {
      const std::string text = adapt("layer."s + code + ".weight", style);
      EXPECT_THAT(text, Not(HasSubstr(code))) << text;
      EXPECT_THAT(text, AllOf(StartsWith("layer.\ufffd"), EndsWith(".weight")));
      EXPECT_EQ(text.find_first_of("\x1b\r\b\x07\x7f\x0e"), text.npos);
    }
    EXPECT_EQ(adapt("two\nlines\tand 漢 é ±", style), "two\nlines\tand 漢 é ±");
  }
  EXPECT_EQ(adapt("a\x1b[2Jb", {.glyphs = Glyphs::kAscii}), "a?b");
}

TEST_F(TerminalTest, PrintsAtOnce) {
  Terminal terminal(pty_.screen.get());
  terminal.print("{:.1f}", 2.5);
  EXPECT_EQ(pty_.read(), "2.5");
}

TEST_F(TerminalTest, ProgressIsOneLineThatVanishes) {
  Terminal terminal(pty_.screen.get());
  {
    ProgressBar bar(terminal, "training", 10);
    bar.update(5, "loss 2.31");
    bar.update(6);  // too early for drawing
    const std::string line = pty_.read();
    EXPECT_TRUE(line.starts_with("\rtraining ")) << line;
    EXPECT_NE(line.find(" 50%  0:00, 0:00 left  loss 2.31"), std::string::npos) << line;
    EXPECT_EQ(line.find("60%"), std::string::npos);
  }
  EXPECT_EQ(pty_.read(), "\r" + repeat(" ", terminal.width() - 1) + "\r");
}

TEST_F(TerminalTest, ProgressPrintsNothingIntoAFile) {
  Terminal terminal(file_.get());
  { ProgressBar(terminal, "training", 10).update(5); }
  EXPECT_EQ(std::ftell(file_.get()), 0);
}

TEST(Progress, NeverExceedsTheWidth) {
  const Progress progress{
      .label = "training", .fraction = 0.421, .seconds = 4000, .note = "loss 2"};
  EXPECT_EQ(adapt(draw_progress(progress, 60), {}),
            "training ━━━━━━─────────  42%  1:06:40, 1:31:41 left  loss 2");
  EXPECT_EQ(adapt(draw_progress(progress, 48), {}),
            "training ━━━━╸──────  42%  1:06:40, 1:31:41 left");
  EXPECT_EQ(draw_progress(progress, 30), "42%");
  for (int width = 3; width < 100; ++width) {
    EXPECT_LE(display_width(draw_progress(progress, width)), width);
  }
}

}  // namespace
}  // namespace addnorm::report
