#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <ranges>
#include <span>
#include <vector>

namespace addnorm::testing {

template <std::ranges::contiguous_range Range>
std::vector<double> to_double(const Range& values) {
  return {std::ranges::begin(values), std::ranges::end(values)};
}

/// The largest of several errors. std::max would drop a NaN; here it fails the test with its
/// position, and the largest error is infinite from then on.
class LargestError {
 public:
  template <typename Place>
  void add(double error, const Place& place) {
    if (std::isnan(error)) {
      if (largest_ < kFailed) ADD_FAILURE() << "the error is NaN at " << place;
      error = kFailed;
    }
    largest_ = std::max(largest_, error);
  }
  operator double() const { return largest_; }

 private:
  static constexpr double kFailed = std::numeric_limits<double>::infinity();
  double largest_ = 0;
};

/// Returns max |actual − expected|; infinite, with a failure, if a value is NaN or the lengths
/// differ.
template <std::ranges::contiguous_range Actual, std::ranges::contiguous_range Expected>
double max_error(const Actual& actual, const Expected& expected) {
  if (std::ranges::size(actual) != std::ranges::size(expected)) {
    ADD_FAILURE() << "there are " << std::ranges::size(actual) << " values, expected "
                  << std::ranges::size(expected);
    return std::numeric_limits<double>::infinity();
  }
  LargestError error;
  for (std::size_t i = 0; i < std::ranges::size(expected); ++i) {
    error.add(std::abs(static_cast<double>(actual[i]) - static_cast<double>(expected[i])), i);
  }
  return error;
}

/// Returns max |value|; infinite, with a failure, if a value is NaN.
template <std::ranges::contiguous_range Range>
double max_abs(const Range& values) {
  LargestError largest;
  for (std::size_t i = 0; i < std::ranges::size(values); ++i) {
    largest.add(std::abs(static_cast<double>(values[i])), i);
  }
  return largest;
}

/// Returns max |actual − expected| ÷ max |expected|, or ÷ `least` if that is larger.
template <std::ranges::contiguous_range Actual, std::ranges::contiguous_range Expected>
double relative_error(const Actual& actual, const Expected& expected, double least = 0) {
  const double largest = std::max(max_abs(expected), least);
  const double error = max_error(actual, expected);
  return largest > 0 ? error / largest : error;
}

/// Returns whether two ranges hold the same bits, so that NaN equals NaN and 0 differs from −0.
template <std::ranges::contiguous_range Range1, std::ranges::contiguous_range Range2>
bool same_bits(const Range1& a, const Range2& b) {
  static_assert(sizeof(a[0]) == sizeof(b[0]));
  const std::size_t size = std::ranges::size(a);
  return size == std::ranges::size(b) &&
         (size == 0 || std::memcmp(&a[0], &b[0], size * sizeof(a[0])) == 0);
}

}  // namespace addnorm::testing
