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

/// What a Range header asks for of `size` bytes (RFC 9110, section 14.2).
struct RangeRequest {
  enum Kind {
    kNone,           ///< all of them: the header is absent, malformed, or asks for several ranges
    kSatisfiable,    ///< `range`, which lies within the bytes
    kUnsatisfiable,  ///< a range that has none of the bytes
  };
  Kind kind = kNone;
  ByteRange range;
};
RangeRequest parse_range(std::optional<std::string_view> header, std::uint64_t size);

}  // namespace addnorm::cli
