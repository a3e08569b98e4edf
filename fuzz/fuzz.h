#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "addnorm/error.h"

/// Calls a reader. For any input, it may throw only addnorm::Error.
template <typename Read>
int fuzz(const std::uint8_t* data, std::size_t size, const Read& read) {
  try {
    read(std::string(reinterpret_cast<const char*>(data), size));
  } catch (const addnorm::Error&) {
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
