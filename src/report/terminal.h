#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

namespace addnorm::report {

enum class Color { kOff, kOn };
enum class Glyphs { kAscii, kUnicode };
enum class Cursor { kOnlyAdvances, kMovesBack };

/// The capabilities of an output.
struct Style {
  Color color = Color::kOff;
  Glyphs glyphs = Glyphs::kUnicode;
  Cursor cursor = Cursor::kOnlyAdvances;
  int width = 80;
};

/// Detects the style for this output in this environment. Colour and a moving cursor need a
/// terminal (TERM=dumb is none), and NO_COLOR disables colour. The width is the terminal's, else
/// COLUMNS, else 80. The glyphs are ASCII if LC_ALL, LC_CTYPE or LANG name another encoding than
/// UTF-8.
Style detect_style(std::FILE* out);

/// Adapts a text to the style: without terminal codes if there is no colour, and with the nearest
/// ASCII characters if there is no UTF-8. Names in files may contain anything, so "�" replaces
/// control characters, except line breaks and tabs, and codes other than this project's colours.
std::string adapt(std::string_view text, const Style& style);

/// An output with its style.
class Terminal {
 public:
  explicit Terminal(std::FILE* out) : Terminal(out, detect_style(out)) {}
  Terminal(std::FILE* out, const Style& style) : out_(out), style_(style) {}

  template <typename... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    write(fmt::format(format, std::forward<Args>(args)...));
  }
  /// Writes the adapted text and flushes it.
  void write(std::string_view text);
  /// Writes the adapted text over the current line.
  void overwrite(std::string_view line);

  const Style& style() const { return style_; }
  int width() const { return style_.width; }

 private:
  std::FILE* out_;
  Style style_;
};

struct Progress {
  std::string_view label;
  double fraction = 0;  ///< Between 0 and 1.
  double seconds = 0;   ///< Since the beginning of the bar.
  double begun = 0;     ///< Fraction done before the beginning.
  std::string_view note = {};
};

/// Returns "training ━━━━━━━╸──── 42%  0:12, 0:17 left  loss 2.31", in at most `width` columns.
std::string draw_progress(const Progress& progress, int width);

/// A line that is redrawn during work, and erased at its end. Prints nothing if the cursor cannot
/// move, as in a pipe.
class ProgressBar {
 public:
  /// `begun` is the number of items that are already done and take no time.
  ProgressBar(Terminal& terminal, std::string label, std::size_t total, std::size_t begun = 0);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Cheap: redraws at most a few times a second.
  void update(std::size_t done, std::string_view note = {});
  /// Erases the bar for other output, until the next update.
  void hide();

 private:
  using Clock = std::chrono::steady_clock;

  Terminal& terminal_;
  std::string label_;
  std::size_t total_;
  std::size_t begun_;
  bool is_shown_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_ = start_;
};

}  // namespace addnorm::report
