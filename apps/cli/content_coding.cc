#include "cli/content_coding.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace addnorm::cli {
namespace {

/// Removes the part before the separator, or everything, from the front, and returns it.
std::string_view take(std::string_view& text, char separator) {
  const std::size_t at = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return part;
}

/// Whether the parameters have a weight above 0; "q=0" is one without spaces.
bool has_weight(std::string_view parameters) {
  if (!parameters.starts_with("q=0")) return true;
  return parameters.find_first_not_of("0.", 2) != std::string_view::npos;
}

}  // namespace

bool accepts_coding(std::string_view header, std::string_view coding) {
  std::string plain;  // in lower case, without spaces
  for (const unsigned char c : header) {
    if (!std::isspace(c)) plain += static_cast<char>(std::tolower(c));
  }
  bool any = false;
  for (std::string_view rest = plain; !rest.empty();) {
    std::string_view parameters = take(rest, ',');
    const std::string_view name = take(parameters, ';');
    if (name == coding) return has_weight(parameters);
    if (name == "*") any = has_weight(parameters);
  }
  return any;
}

}  // namespace addnorm::cli
