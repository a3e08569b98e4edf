#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "addnorm/error.h"

namespace addnorm {

/// Throws Error. The one place of the library that throws.
[[noreturn]] void fail(const std::string& message);

/// Throws Error with the formatted message unless `condition` holds.
template <typename... Args>
void require(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) fail(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace addnorm
