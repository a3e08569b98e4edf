#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <span>

#include "support/compare.h"

namespace addnorm::testing {

/// Returns max |analytic − central difference| ÷ max |central difference| over `values`, where
/// `analytic` is the gradient of `loss` under test. It uses a five-point stencil with the error
/// O(step⁴), and tries `at_most` values, evenly spread.
inline double gradient_error(std::span<double> values, std::span<const double> analytic,
                             const std::function<double()>& loss, std::size_t at_most = 64,
                             double step = 3e-4) {
  LargestError error;
  double largest = 1e-3;  // smaller gradients (a key bias has none) vanish in the loss's rounding
  const std::size_t stride = std::max<std::size_t>(1, values.size() / at_most);
  for (std::size_t i = 0; i < values.size(); i += stride) {
    const double value = values[i];
    auto at = [&](double offset) {
      values[i] = value + offset;
      return loss();
    };
    const double difference =
        (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step);
    values[i] = value;
    error.add(std::abs(analytic[i] - difference), i);
    largest = std::max(largest, std::abs(difference));
  }
  return error / largest;
}

}  // namespace addnorm::testing
