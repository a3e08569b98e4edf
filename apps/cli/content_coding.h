#pragma once

#include <string_view>

namespace addnorm::cli {

/// Returns whether an Accept-Encoding header accepts a content coding, "br" or "gzip", by its name
/// or by *, with a weight above 0 (RFC 9110, section 12.5.3).
bool accepts_coding(std::string_view header, std::string_view coding);

}  // namespace addnorm::cli
