#pragma once

#include <string>
#include <string_view>

namespace addnorm::report {

/// The role of a piece of text; the terminal or the page chooses its colour.
enum class Ink { kPlain, kStrong, kFaint, kPositive, kNegative, kGood, kBad };

/// Returns the text between the terminal codes of its ink. Terminal::print removes them if there is
/// no colour, so text is always drawn in full: in colour and in UTF-8.
std::string paint(Ink ink, std::string_view text);

/// Like paint(), in the colour of a series, the nearest one to that of theme.h.
std::string paint_series(int color, std::string_view text);

/// The first element of a text, a UTF-8 character or a terminal code, and its width in columns.
struct Glyph {
  std::string_view bytes;
  int width = 0;
};
Glyph first_glyph(std::string_view text);

/// Returns the number of columns that the text takes on a terminal.
int display_width(std::string_view text);

enum class Align { kLeft, kRight };

/// Returns the text, padded with spaces to `width` columns.
std::string pad(std::string_view text, int width, Align align);

/// Returns the text repeated `times` times.
std::string repeat(std::string_view text, int times);

/// Breaks the text at spaces into lines of at most `width` columns, except where a word is longer.
std::string wrap(std::string_view text, int width);

/// Escapes the text for HTML and SVG, between tags or inside a quoted attribute.
std::string escape(std::string_view text);

}  // namespace addnorm::report
