#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

namespace addnorm::testing {

/// Returns whether slow tests run, and sampling tests use all samples: in `make test-all`.
inline bool long_tests() {
  const char* value = std::getenv("ADDNORM_LONG_TESTS");
  return value != nullptr && *value != '\0';
}

/// Begins a test that is too slow for every change.
#define ADDNORM_LONG_TEST() \
  if (!::addnorm::testing::long_tests()) GTEST_SKIP() << "runs in make test-all"

/// Returns the number of further seeds for a figure, of the twenty that it was not made with.
inline int further_seeds() {
  return long_tests() ? 20 : 4;
}

}  // namespace addnorm::testing
