#include "cli/byte_range.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace addnorm::cli {
namespace {

/// Parses one or more digits. A number too large for 64 bits becomes the largest number.
std::optional<std::uint64_t> parse_digits(std::string_view text) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || stopped != end) return std::nullopt;
  if (error == std::errc::result_out_of_range) return std::numeric_limits<std::uint64_t>::max();
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

}  // namespace

RangeRequest parse_range(std::optional<std::string_view> header, std::uint64_t size) {
  constexpr std::string_view kUnit = "bytes=";
  if (!header || !header->starts_with(kUnit)) return {};
  const std::string_view range = header->substr(kUnit.size());
  const std::size_t dash = range.find('-');
  if (dash == std::string_view::npos) return {};
  const auto first = parse_digits(range.substr(0, dash));
  const auto last = parse_digits(range.substr(dash + 1));
  if (dash > 0 && !first) return {};
  if (dash + 1 < range.size() && !last) return {};

  ByteRange bytes{0, size};
  if (first && last) {  // 5-9
    if (*first > *last) return {};
    bytes = {*first, *last < size ? *last + 1 : size};
  } else if (first) {  // 5-
    bytes.begin = *first;
  } else if (last) {  // -5, the last five
    bytes.begin = size - std::min(*last, size);
  } else {
    return {};
  }
  if (bytes.begin >= bytes.end) return {.kind = RangeRequest::kUnsatisfiable, .range = {}};
  return {.kind = RangeRequest::kSatisfiable, .range = bytes};
}

}  // namespace addnorm::cli
