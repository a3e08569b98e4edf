#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace addnorm::cli {

/// Bytes `begin` … `end` − 1.
struct ByteRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// The part of `size` bytes that a Range header requests (RFC 9110, section 14.2).
struct RangeRequest {
  enum Kind {
    kNone,           ///< the whole: the header is absent or malformed, or has several ranges
    kSatisfiable,    ///< `range`, which lies within the bytes
    kUnsatisfiable,  ///< the range has none of the bytes
  };
  Kind kind = kNone;
  ByteRange range;
};
RangeRequest parse_range(std::optional<std::string_view> header, std::uint64_t size);

}  // namespace addnorm::cli
