#include "base/shorten.h"

namespace addnorm {
inline namespace base {
namespace {

bool is_inside_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

}  // namespace

std::string shorten(std::string_view text, std::size_t most) {
  constexpr std::string_view kEllipsis = "…";
  if (text.size() <= most) return std::string(text);
  const std::size_t kept = most - kEllipsis.size();
  std::size_t end = (kept + 1) / 2;
  std::size_t begin = text.size() - kept / 2;
  while (end > 0 && is_inside_character(text[end])) --end;
  while (begin < text.size() && is_inside_character(text[begin])) ++begin;
  return std::string(text.substr(0, end)).append(kEllipsis).append(text.substr(begin));
}

}  // namespace base
}  // namespace addnorm
