#pragma once

#include <chrono>

namespace addnorm {

/// Returns the time of work().
template <typename Work>
double milliseconds(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace addnorm
