#include "report/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "report/theme.h"

namespace addnorm::report {
namespace {

// Colours among the 256 that are legible on both black and white.
std::string_view code_of(Ink ink) {
  switch (ink) {
    case Ink::kPlain:
      return "";
    case Ink::kStrong:
      return "1";
    case Ink::kFaint:
      return "2";
    case Ink::kPositive:
      return "38;5;32";
    case Ink::kNegative:
      return "38;5;172";
    case Ink::kGood:
      return "38;5;35";
    case Ink::kBad:
      return "38;5;160";
  }
  return "";
}

constexpr int kSeriesCodes[kSeriesColors] = {32, 172, 29, 162, 100, 37, 97, 174};

std::size_t code_length(std::string_view text) {
  const std::size_t end =
      std::find_if(text.begin() + 2, text.end(), [](char c) { return c >= '@' && c <= '~'; }) -
      text.begin();
  return std::min(end + 1, text.size());
}

struct Block {
  char32_t first, last;
  int width;
};

// Characters that are not one column wide, among those that a report is likely to contain.
constexpr Block kBlocks[] = {
    {0x0300, 0x036F, 0}, {0x1100, 0x115F, 2}, {0x200B, 0x200F, 0},   {0x2E80, 0xA4CF, 2},
    {0xAC00, 0xD7A3, 2}, {0xF900, 0xFAFF, 2}, {0xFE00, 0xFE0F, 0},   {0xFE30, 0xFE6F, 2},
    {0xFF00, 0xFF60, 2}, {0xFFE0, 0xFFE6, 2}, {0x1F300, 0x1FAFF, 2}, {0x20000, 0x3FFFD, 2},
};

int width_of(char32_t code) {
  for (const Block& block : kBlocks) {
    if (code >= block.first && code <= block.last) return block.width;
  }
  return code < ' ' ? 0 : 1;
}

}  // namespace

std::string paint(Ink ink, std::string_view text) {
  if (ink == Ink::kPlain || text.empty()) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", code_of(ink), text);
}

std::string paint_series(int color, std::string_view text) {
  return fmt::format("\x1b[38;5;{}m{}\x1b[0m", kSeriesCodes[color % kSeriesColors], text);
}

Glyph first_glyph(std::string_view text) {
  if (text.empty()) return {};
  if (text.starts_with("\x1b[")) return {text.substr(0, code_length(text)), 0};
  const auto lead = static_cast<std::uint8_t>(text[0]);
  const std::size_t ones = std::countl_one(lead);
  const std::size_t expected = std::clamp<std::size_t>(ones, 1, 4);
  char32_t code = lead & (0x7Fu >> ones);
  std::size_t size = 1;
  for (; size < std::min(expected, text.size()); ++size) {
    const auto byte = static_cast<std::uint8_t>(text[size]);
    if (byte >> 6 != 2) break;  // a broken character ends where the next one begins
    code = code << 6 | (byte & 0x3Fu);
  }
  const bool whole = size == expected && ones != 1 && ones <= 4;
  return {text.substr(0, size), whole ? width_of(code) : 1};
}

int display_width(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const Glyph glyph = first_glyph(text);
    width += glyph.width;
    text.remove_prefix(glyph.bytes.size());
  }
  return width;
}

std::string pad(std::string_view text, int width, Align align) {
  const std::string space = repeat(" ", width - display_width(text));
  return align == Align::kLeft ? std::string(text) + space : space + std::string(text);
}

std::string repeat(std::string_view text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

std::string wrap(std::string_view text, int width) {
  std::string lines;
  int column = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    const int columns = display_width(word);
    if (column > 0) {
      const bool fits = column + 1 + columns <= width;
      lines += fits ? ' ' : '\n';
      column = fits ? column + 1 : 0;
    }
    lines += word;
    column += columns;
  }
  return lines;
}

std::string escape(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        // XML allows no control characters, not even escaped.
        if (static_cast<std::uint8_t>(c) >= ' ' || c == '\n' || c == '\t') out += c;
    }
  }
  return out;
}

}  // namespace addnorm::report
