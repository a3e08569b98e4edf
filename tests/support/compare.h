#pragma once

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

/// max |actual − expected|; infinite where a value or the length is not as it must be at all.
template <std::ranges::contiguous_range Range>
double max_error(const Range& actual, const std::vector<double>& expected) {
  constexpr double kWrong = std::numeric_limits<double>::infinity();
  if (std::ranges::size(actual) != expected.size()) return kWrong;
  double error = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(static_cast<double>(actual[i]) - expected[i]);
    error = std::max(error, std::isnan(difference) ? kWrong : difference);
  }
  return error;
}

/// max |actual − expected| ÷ max |expected|.
template <std::ranges::contiguous_range Range>
double relative_error(const Range& actual, const std::vector<double>& expected) {
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  const double error = max_error(actual, expected);
  return largest > 0 ? error / largest : error;
}

/// Whether two ranges hold the same bits, so that NaN equals NaN and 0 differs from −0.
template <std::ranges::contiguous_range Range1, std::ranges::contiguous_range Range2>
bool same_bits(const Range1& a, const Range2& b) {
  static_assert(sizeof(a[0]) == sizeof(b[0]));
  const std::size_t size = std::ranges::size(a);
  return size == std::ranges::size(b) &&
         (size == 0 || std::memcmp(&a[0], &b[0], size * sizeof(a[0])) == 0);
}

}  // namespace addnorm::testing
