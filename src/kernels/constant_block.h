#pragma once

#include <cstddef>

namespace addnorm::kernels {

/// Longer rows are summed in blocks of so many values, so that an error does not grow with length.
inline constexpr std::size_t kBlock = 1024;
/// And these in stretches of so many values.
inline constexpr std::size_t kStretch = 64 * kBlock;

/// A block of 0 or −0, for loops that read a matrix that is absent.
template <typename S>
const S* zeros();
template <typename S>
const S* minus_zeros();

}  // namespace addnorm::kernels
