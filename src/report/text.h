#pragma once

#include <string>
#include <string_view>

namespace addnorm::report {

/// What a piece of text is to the eye; the terminal or the page chooses the colour.
enum class Ink { kPlain, kStrong, kFaint, kPositive, kNegative, kGood, kBad };

/// The text between the terminal codes of its ink. Terminal::print removes them where there is no
/// colour, so text is always drawn in full: in colour and in UTF-8.
std::string paint(Ink ink, std::string_view text);

/// The same in the colour of a series, the nearest to that of theme.h.
std::string paint_series(int color, std::string_view text);

/// The first thing in a text, a UTF-8 character or a terminal code, and how many columns it takes.
struct Glyph {
  std::string_view bytes;
  int width = 0;
};
Glyph first_glyph(std::string_view text);

/// How many columns the text takes on a terminal.
int display_width(std::string_view text);

enum class Align { kLeft, kRight };

/// The text with spaces up to `width` columns.
std::string pad(std::string_view text, int width, Align align);

/// The text `times` times.
std::string repeat(std::string_view text, int times);

/// The text broken at spaces into lines of at most `width` columns where its words allow it.
std::string wrap(std::string_view text, int width);

/// The text for HTML and SVG, between tags or inside a quoted attribute.
std::string escape(std::string_view text);

}  // namespace addnorm::report
