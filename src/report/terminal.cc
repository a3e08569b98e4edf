#include "report/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include "report/text.h"

namespace addnorm::report {
namespace {

constexpr std::chrono::milliseconds kRedraw{100};
constexpr int kMostBar = 30;
constexpr int kLeastBar = 5;

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int width_of(std::FILE* out) {
  winsize size{};
  if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const int columns = std::atoi(std::string(variable("COLUMNS")).c_str());
  return columns > 0 ? columns : 80;
}

Glyphs glyphs_of_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string locale(variable(name));
    if (locale.empty()) continue;
    std::erase(locale, '-');
    std::transform(locale.begin(), locale.end(), locale.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    return locale.find("utf8") != std::string::npos ? Glyphs::kUnicode : Glyphs::kAscii;
  }
  return Glyphs::kUnicode;  // containers often set no locale, but their terminals support UTF-8
}

// The characters that each ASCII character replaces.
constexpr std::pair<char, std::string_view> kNearest[] = {
    {'#', "█▉▊▋▌▐■"}, {' ', "▍▎▏"}, {'%', "▇◇"},  {'*', "▆◆▓⊙"}, {'+', "▅└┬▒"}, {'=', "▄━╸"},
    {':', "▃░"},      {'.', "▂…·"}, {'_', "▁"},   {'-', "─−–⁻"}, {'|', "│┤‖"},  {'!', "∞"},
    {'~', "±"},       {'x', "×⊗"},  {'>', "→▷⟩"}, {'<', "◁←⟨"},  {'@', "●"},    {'o', "○"},
    {'A', "▲"},       {'^', "△"},   {'V', "▼"},   {'v', "▽"},    {'H', "□"},    {'&', "★"},
    {'$', "☆"},       {'D', "▶"},   {'C', "◀"},   {'0', "⁰"},    {'1', "¹"},    {'2', "²"},
    {'3', "³"},       {'4', "⁴"},   {'5', "⁵"},   {'6', "⁶"},    {'7', "⁷"},    {'8', "⁸"},
    {'9', "⁹"},       {'\'', "′"},
};

char nearest(std::string_view glyph) {
  for (const auto& [ascii, glyphs] : kNearest) {
    if (glyphs.find(glyph) != std::string_view::npos) return ascii;
  }
  return '?';
}

// Blocks filled from the right are drawn with foreground and background exchanged (bars.cc).
// Without that, the nearest character is a full, half or empty block.
std::string without_inversion(std::string_view text) {
  constexpr std::string_view kInvert = "\x1b[7m";
  std::string out;
  for (std::size_t at; (at = text.find(kInvert)) != std::string_view::npos;) {
    out += text.substr(0, at);
    text.remove_prefix(at + kInvert.size());
    const std::string_view paper = first_glyph(text).bytes;
    out += paper >= "▎" ? "█" : paper >= "▋" ? "▐" : " ";
    text.remove_prefix(paper.size());
  }
  return out += text;
}

// Writes 10⁻⁵ as 1e-5; other superscripts become their nearest characters.
std::string spell_powers(std::string text) {
  for (std::size_t at = 0; (at = text.find("10", at)) != text.npos; ++at) {
    const std::string_view next = first_glyph(std::string_view(text).substr(at + 2)).bytes;
    if (next.size() > 1 && std::string_view("⁻⁰¹²³⁴⁵⁶⁷⁸⁹").find(next) != std::string_view::npos) {
      text[at + 1] = 'e';
    }
  }
  return text;
}

std::string format_time(double seconds) {
  const auto whole = static_cast<long>(seconds);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

}  // namespace

Style detect_style(std::FILE* out) {
  Style style;
  const bool terminal = isatty(fileno(out)) != 0 && variable("TERM") != "dumb";
  if (terminal) style.cursor = Cursor::kMovesBack;
  if (terminal && variable("NO_COLOR").empty()) style.color = Color::kOn;
  style.glyphs = glyphs_of_locale();
  style.width = width_of(out);
  return style;
}

std::string adapt(std::string_view text, const Style& style) {
  const bool colored = style.color == Color::kOn;
  const bool ascii = style.glyphs == Glyphs::kAscii;
  if (colored && !ascii) return std::string(text);
  std::string source = without_inversion(text);
  if (ascii) source = spell_powers(source);
  std::string out;
  for (std::string_view rest = source; !rest.empty();) {
    const Glyph glyph = first_glyph(rest);
    rest.remove_prefix(glyph.bytes.size());
    if (glyph.bytes[0] == '\x1b') {
      if (colored) out += glyph.bytes;
    } else if (ascii && glyph.bytes.size() > 1) {
      out += std::string(glyph.width, nearest(glyph.bytes));
    } else {
      out += glyph.bytes;
    }
  }
  return out;
}

void Terminal::write(std::string_view text) {
  const std::string adapted = adapt(text, style_);
  std::fwrite(adapted.data(), 1, adapted.size(), out_);
  std::fflush(out_);
}

std::string draw_progress(const Progress& progress, int width) {
  const double fraction = std::clamp(progress.fraction, 0.0, 1.0);
  std::string percent = fmt::format("{:.0f}%", std::floor(100 * fraction));
  const std::string head = fmt::format("{} ", progress.label);
  std::string tail = fmt::format(" {:>4}  {}", percent, format_time(progress.seconds));
  if (fraction > progress.begun) {
    const double left = progress.seconds * (1 - fraction) / (fraction - progress.begun);
    tail += fmt::format(", {} left", format_time(left));
  }
  int columns = width - display_width(head) - display_width(tail);
  const int note_columns = display_width(progress.note) + 2;
  if (!progress.note.empty() && columns - note_columns >= kLeastBar) {
    tail += fmt::format("  {}", progress.note);
    columns -= note_columns;
  }
  if (columns < kLeastBar) return percent;
  columns = std::min(columns, kMostBar);
  const int halves = static_cast<int>(2 * columns * fraction);
  const std::string done = repeat("━", halves / 2) + (halves % 2 == 1 ? "╸" : "");
  const std::string left = repeat("─", columns - display_width(done));
  return head + paint(Ink::kPositive, done) + paint(Ink::kFaint, left) + tail;
}

ProgressBar::ProgressBar(Terminal& terminal, std::string label, std::size_t total,
                         std::size_t begun)
    : terminal_(terminal), label_(std::move(label)), total_(total), begun_(begun) {}

ProgressBar::~ProgressBar() {
  hide();
}

void ProgressBar::hide() {
  if (is_shown_) terminal_.write("\r" + repeat(" ", terminal_.width() - 1) + "\r");
  is_shown_ = false;
  next_ = start_;
}

void ProgressBar::update(std::size_t done, std::string_view note) {
  const Clock::time_point now = Clock::now();
  if (terminal_.style().cursor == Cursor::kOnlyAdvances || now < next_) return;
  next_ = now + kRedraw;
  is_shown_ = true;
  const auto share = [&](std::size_t part) {
    return static_cast<double>(part) / static_cast<double>(std::max<std::size_t>(total_, 1));
  };
  const Progress progress{.label = label_,
                          .fraction = share(done),
                          .seconds = std::chrono::duration<double>(now - start_).count(),
                          .begun = share(begun_),
                          .note = note};
  // One column stays free: a terminal may break the line after its last one.
  const int width = terminal_.width() - 1;
  terminal_.write("\r" + pad(draw_progress(progress, width), width, Align::kLeft));
}

}  // namespace addnorm::report
