#pragma once

#include <cstdlib>

namespace addnorm::testing {

/// Whether tests that take samples are to take all, as `make test-all` sets it.
inline bool long_tests() {
  const char* value = std::getenv("ADDNORM_LONG_TESTS");
  return value != nullptr && *value != '\0';
}

/// Of twenty seeds that a figure was not made with, those to try.
inline int further_seeds() {
  return long_tests() ? 20 : 4;
}

}  // namespace addnorm::testing
