#include "cli/called_program.h"

#include <string>
#include <string_view>

namespace addnorm::cli {
namespace {

std::string& name() {
  static std::string name = "addnorm";
  return name;
}

}  // namespace

void set_called_program(const char* called) {
  if (called != nullptr && *called != '\0') name() = called;
}

std::string called_program() {
  // "python3 -m addnorm" comes from a launcher and stays unquoted; only in a path is a space part
  // of a name.
  return name().find('/') == std::string::npos ? name() : shell_word(name());
}

std::string as_called(std::string_view text) {
  constexpr std::string_view kBegin = "  addnorm ";
  std::string result;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n') + 1);
    if (line.empty()) line = text;
    text.remove_prefix(line.size());
    if (line.starts_with(kBegin)) {
      result += "  " + called_program() + " ";
      line.remove_prefix(kBegin.size());
    }
    result += line;
  }
  return result;
}

std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  const bool is_plain = !word.empty() && word.find_first_not_of(kPlain) == std::string::npos;
  if (is_plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace addnorm::cli
