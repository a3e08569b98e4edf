#include "report/svg_parts.h"

#include <fmt/format.h>

#include <iterator>

#include "report/text.h"

namespace addnorm::report {

double text_width(std::string_view text, double size) {
  const auto is_one_of = [&](std::string_view set) { return set.find(text[0]) != set.npos; };
  double width = 0;
  for (; !text.empty(); text.remove_prefix(first_glyph(text).bytes.size())) {
    const double em = is_one_of("iljtfrI.,:;'|!()[] -") ? 0.38 : is_one_of("mwMW%") ? 0.9 : 0.62;
    width += em * first_glyph(text).width;
  }
  return width * size;
}

std::vector<std::string> lines_of(std::string_view text, double width, double size) {
  const std::string wrapped = wrap(text, static_cast<int>(width / (0.65 * size)));
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < wrapped.size(); begin += lines.back().size() + 1) {
    lines.push_back(wrapped.substr(begin, wrapped.find('\n', begin) - begin));
  }
  return lines;
}

std::string paragraph(std::string_view text, std::string_view css_class, double size, double width,
                      double& top) {
  std::string out;
  for (const std::string& line : lines_of(text, width - 2 * kEdge, size)) {
    fmt::format_to(std::back_inserter(out), "<text class=\"{}\" x=\"{}\" y=\"{:.1f}\">{}</text>",
                   css_class, kEdge, top + size - 3, escape(line));
    top += size + 5;
  }
  return out;
}

}  // namespace addnorm::report
