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

/// Whether the code is one of those that paint(), paint_series() and bars.cc write.
bool is_own_code(std::string_view code) {
  constexpr std::string_view kOwn[] = {"\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[7m", "\x1b[27m"};
  if (std::ranges::count(kOwn, code) > 0) return true;
  constexpr std::string_view kColor = "\x1b[38;5;";
  if (!code.starts_with(kColor) || !code.ends_with('m')) return false;
  code = code.substr(kColor.size(), code.size() - kColor.size() - 1);
  return std::ranges::all_of(code, [](char c) { return c >= '0' && c <= '9'; });
}

/// Whether a terminal could obey the character, or reorder others by it: a control character, a
/// byte that is not UTF-8, or a mark of the direction of writing.
bool is_control(std::string_view glyph) {
  const auto lead = static_cast<unsigned char>(glyph[0]);
  if (glyph.size() == 1) return (lead < ' ' && lead != '\n' && lead != '\t') || lead >= 0x7f;
  constexpr std::string_view kDirections[] = {"\u061c", "\u200e", "\u200f", "\u202a",
                                              "\u202b", "\u202c", "\u202d", "\u202e",
                                              "\u2066", "\u2067", "\u2068", "\u2069"};
  const bool is_c1 = lead == 0xc2 && static_cast<unsigned char>(glyph[1]) < 0xa0;
  return is_c1 || std::ranges::count(kDirections, glyph) > 0;
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
  std::string source = colored && !ascii ? std::string(text) : without_inversion(text);
  if (ascii) source = spell_powers(source);
  std::string out;
  for (std::string_view rest = source; !rest.empty();) {
    const Glyph glyph = first_glyph(rest);
    rest.remove_prefix(glyph.bytes.size());
    if (is_own_code(glyph.bytes)) {
      if (colored) out += glyph.bytes;
    } else if (is_control(glyph.bytes) || glyph.bytes[0] == '\x1b') {
      out += ascii ? "?" : "\ufffd";
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

void Terminal::overwrite(std::string_view line) {
  std::fputc('\r', out_);
  write(line);
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
  if (is_shown_) {
    terminal_.overwrite(repeat(" ", terminal_.width() - 1));
    terminal_.overwrite("");
  }
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
  terminal_.overwrite(pad(draw_progress(progress, width), width, Align::kLeft));
}

}  // namespace addnorm::report
