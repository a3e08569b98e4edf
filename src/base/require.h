#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "addnorm/error.h"

namespace addnorm {
inline namespace base {

/// Throws Error. The one place of the library that throws. Where there are no exceptions
/// (WebAssembly) it keeps the message for last_failure() and traps.
[[noreturn]] void fail(std::string_view message);

#ifndef __cpp_exceptions
/// What fail() was last called with, cut to 1,023 bytes; "" if it never was.
const char* last_failure();
#endif

/// Throws Error with the formatted message unless `condition` holds.
template <typename... Args>
void require(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) fail(fmt::format(format, std::forward<Args>(args)...));
}

/// Runs body(); an Error in it is thrown again with `prefix` before its message. Where there are no
/// exceptions the message stays without it.
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
