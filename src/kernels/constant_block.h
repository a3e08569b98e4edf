#pragma once

#include <cstddef>

namespace addnorm::kernels {

/// The number of values in a block: longer rows are summed in blocks, so that the error does not
/// grow with length.
inline constexpr std::size_t kBlock = 1024;
/// The number of values in a stretch of blocks, the next level of the sums.
inline constexpr std::size_t kStretch = 64 * kBlock;

/// A block of 0 or −0 that loops read instead of an absent matrix.
template <typename S>
const S* zeros();
template <typename S>
const S* minus_zeros();

}  // namespace addnorm::kernels
