#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "addnorm/norm.h"
#include "base/philox.h"

namespace addnorm {

/// The factor of each element from `first` on: 0 or 1/(1 − p). Element e takes word e mod 4 of
/// Philox block e/4 and stays where that word is at least p·2³².
template <typename T>
void dropout_factors(const Dropout& dropout, std::uint64_t first, std::span<T> factors) {
  const auto threshold = static_cast<std::uint64_t>(dropout.probability * 4294967296.0);
  const T keep = static_cast<T>(1.0 / (1.0 - dropout.probability));
  std::array<std::uint32_t, 4> words{};
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const std::uint64_t element = dropout.offset + first + i;
    if (i == 0 || element % 4 == 0) words = philox(dropout.seed, element / 4);
    factors[i] = words[element % 4] >= threshold ? keep : T{0};
  }
}

}  // namespace addnorm
