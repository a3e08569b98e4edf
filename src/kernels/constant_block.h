#pragma once

#include <array>

namespace addnorm {

/// Longer rows are summed in blocks of so many values, so that an error does not grow with length.
inline constexpr std::size_t kBlock = 1024;

/// A block of 0 or −0, for loops that read a matrix that is absent.
template <typename S, bool kMinusZero>
const S* constant_block() {
  static constexpr auto kValues = [] {
    std::array<S, kBlock> values;
    values.fill(S(kMinusZero ? -0.0F : 0.0F));
    return values;
  }();
  return kValues.data();
}

}  // namespace addnorm
