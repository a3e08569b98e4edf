#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "addnorm/error.h"

namespace addnorm {
inline namespace base {

/// Throws an Error; all errors of the library are thrown here. Without exceptions (WebAssembly) it
/// stores the message for last_failure() and traps.
[[noreturn]] void fail(std::string_view message);

#ifndef __cpp_exceptions
/// Returns the message of the last fail(), cut to 1,023 bytes; "" if there was none.
const char* last_failure();
#endif

/// Throws an Error with the formatted message unless `condition` holds.
template <typename... Args>
void require(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) fail(fmt::format(format, std::forward<Args>(args)...));
}

/// Runs body(); an Error in it is rethrown with `prefix` before its message. Without exceptions the
/// message has no prefix.
template <typename Body>
void with_prefix([[maybe_unused]] std::string_view prefix, const Body& body) {
#ifdef __cpp_exceptions
  try {
    body();
  } catch (const Error& error) {
    fail(fmt::format("{}{}", prefix, error.what()));
  }
#else
  body();
#endif
}

}  // namespace base
}  // namespace addnorm
