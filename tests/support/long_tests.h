#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

namespace addnorm::testing {

/// Whether tests that take long are to run, and those that take samples to take all: in
/// `make test-all`.
inline bool long_tests() {
  const char* value = std::getenv("ADDNORM_LONG_TESTS");
  return value != nullptr && *value != '\0';
}

/// Begins a test that takes too long for every change.
#define ADDNORM_LONG_TEST() \
  if (!::addnorm::testing::long_tests()) GTEST_SKIP() << "runs in make test-all"

/// Of twenty seeds that a figure was not made with, those to try.
inline int further_seeds() {
  return long_tests() ? 20 : 4;
}

}  // namespace addnorm::testing
