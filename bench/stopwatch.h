#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace addnorm {

/// Returns the time of work().
template <typename Work>
double milliseconds(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

/// Returns the time of work() ÷ that of plain(): the median of ratios from alternating runs.
template <typename Plain, typename Work>
double ratio(double seconds, const Plain& plain, const Work& work) {
  std::size_t calls = 1;  // enough for a millisecond
  const auto sample = [&](const auto& job) {
    return milliseconds([&] {
      for (std::size_t i = 0; i < calls; ++i) job();
    });
  };
  sample(work);
  while (sample(plain) < 1) calls *= 2;
  std::vector<double> ratios;
  for (double left = seconds * 1e3; left > 0 || ratios.size() < 5;) {
    const double a = sample(plain), b = sample(work), c = sample(plain);
    ratios.push_back(2 * b / (a + c));
    left -= a + b + c;
  }
  std::ranges::nth_element(ratios, ratios.begin() + ratios.size() / 2);
  return ratios[ratios.size() / 2];
}

}  // namespace addnorm
