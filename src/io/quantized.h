#pragma once

#include <cstddef>
#include <span>

#include "io/tensor.h"

namespace addnorm::io {

/// The largest number of values in a block.
constexpr std::size_t kLargestBlock = 256;

/// Computes the info(dtype).values values of a block from its info(dtype).bytes bytes.
using Dequantize = void (*)(const std::byte* block, float* values);

/// Returns the function of a block dtype; nullptr for any other dtype, and for unsupported ones.
///
/// Scales d and offsets m are halves, and q has 2 to 8 bits. The values are (ggml's names):
///
///     Q4_0    d·(q − 8)      Q4_1    d·q + m      32 values to a block
///     Q5_0    d·(q − 16)     Q5_1    d·q + m      32
///     Q8_0    d·q                                 32; q has a sign
///     IQ4_NL  d·level[q]                          32; 16 levels, denser around 0
///     IQ4_XS  d·s·level[q]                        256, in 8 parts with an s of 6 bits
///     Q2_K    d·s·q − m·t                         256, in 16 parts with s and t of 4 bits each
///     Q3_K    d·s·(q − 4)                         256, in 16 parts with an s of 6 bits
///     Q4_K    d·s·q − m·t    Q5_K    the same     256, in 8 parts with s and t of 6 bits each
///     Q6_K    d·s·(q − 32)                        256, in 16 parts with an s of 8 bits
///     F4      level[q]                            2; a sign and 8 levels from 0 to 6, no scale
Dequantize dequantize(Dtype dtype);

}  // namespace addnorm::io
