#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "addnorm/error.h"

/// A reader may throw addnorm::Error and nothing else, whatever it is given.
template <typename Read>
int fuzz(const std::uint8_t* data, std::size_t size, const Read& read) {
  try {
    read(std::string(reinterpret_cast<const char*>(data), size));
  } catch (const addnorm::Error&) {
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
