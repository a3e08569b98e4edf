#pragma once

#include <cstdint>

#include "addnorm/norm.h"
#include "base/philox.h"

namespace addnorm::kernels {

/// Returns the factor of one element, 0 or 1/(1 − p); 1 without dropout. Element e uses word e mod
/// 4 of Philox block e/4, and is kept if that word is at least p·2³².
template <typename T>
T dropout_factor(const Dropout& dropout, std::uint64_t element) {
  if (!dropout.active()) return T{1};
  element += dropout.offset;
  const std::uint32_t word = philox(dropout.seed, element / 4)[element % 4];
  const auto threshold = static_cast<std::uint32_t>(dropout.probability * 4294967296.0);
  return word < threshold ? T{0} : static_cast<T>(1.0 / (1.0 - dropout.probability));
}

}  // namespace addnorm::kernels
