#pragma once

/// \file
/// The epilogue of a LayerNorm or RMSNorm: its next steps in the same pass over memory. Every part
/// is optional.
///
///     y = (norm(s) ⊙ act(z)) ⊙ (1 + scale) + shift        a gate, and a modulation by sample
///
/// y is then rounded to the type of branches, quantized, or both. A gate may instead come before
/// the norm: norm(s ⊙ act(z)). The computation is in the type of arithmetic, with one rounding for
/// each operator of the formula. All results have the same bits on every instruction set and with
/// any number of threads.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "addnorm/api.h"
#include "addnorm/float16.h"
#include "addnorm/types.h"
#include "addnorm/view.h"

namespace addnorm {

/// The function of a gate.
enum class GateFunction {
  kIdentity,  ///< act(z) = z
  kSigmoid,   ///< act(z) = 1/(1 + exp(−z))
  kSilu,      ///< act(z) = z/(1 + exp(−z))
};
constexpr std::array<std::string_view, 3> names_of(GateFunction) {
  return {"identity", "sigmoid", "silu"};
}

/// The place of a gate.
enum class GatePlace {
  kAfterNorm,   ///< norm(s) ⊙ act(z), as in Qwen3-Next and Gated DeltaNet (Yang et al. 2024)
  kBeforeNorm,  ///< norm(s ⊙ act(z)), as in Mamba-2 (Dao and Gu 2024)
};
constexpr std::array<std::string_view, 2> names_of(GatePlace) {
  return {"after", "before"};
}

/// A gate: a factor act(z) for each value.
template <typename Branch>
struct Gate {
  MatrixView<const Branch> z = {};  ///< rows × features; absent: no gate
  GateFunction function = GateFunction::kSilu;
  GatePlace place = GatePlace::kAfterNorm;

  /// Whether there is a gate at this place.
  constexpr bool is(GatePlace wanted) const { return !z.empty() && place == wanted; }
};

/// A modulation by sample (adaLN, Peebles and Xie 2022): y ⊙ (1 + scale_b) + shift_b. A sample is
/// rows ÷ samples consecutive rows. If both matrices are present, they have as many rows.
template <typename Value>
struct Modulation {
  MatrixView<const Value> scale = {};  ///< samples × features; absent: 0
  MatrixView<const Value> shift = {};  ///< samples × features; absent: 0

  constexpr bool empty() const { return scale.empty() && shift.empty(); }  ///< no modulation
  constexpr std::size_t samples() const { return scale.empty() ? shift.rows : scale.rows; }
};

/// An 8-bit floating-point number with 4 bits of exponent and 3 of fraction: the E4M3 of OCP's
/// 8-bit formats (Micikevicius et al. 2022), PyTorch's float8_e4m3fn. The largest value is 448; it
/// has a NaN, but no infinity. For storage only.
struct ADDNORM_API Float8E4M3 {
  std::uint8_t bits = 0;

  Float8E4M3() = default;
  /// Rounds to nearest even; values beyond ±448 and infinities become ±448.
  explicit constexpr Float8E4M3(float value) {
    constexpr auto kLargest = std::bit_cast<std::uint32_t>(448.0F);
    constexpr std::uint32_t kLeastNormal = 121u << 23;  // 2⁻⁶
    constexpr float kRounder = 16384.0F;  // 2¹⁴: its unit in the last place is 2⁻⁹
    const auto u = std::bit_cast<std::uint32_t>(value);
    std::uint32_t size = u & 0x7FFFFFFF;
    if (size > 0x7F800000) {
      bits = 0x7F;
      return;
    }
    if (size > kLargest) size = kLargest;
    std::uint32_t code = 0;
    if (size < kLeastNormal) {
      code = std::bit_cast<std::uint32_t>(std::bit_cast<float>(size) + kRounder) -
             std::bit_cast<std::uint32_t>(kRounder);
    } else {
      code = ((size + 0x7FFFF + (size >> 20 & 1)) >> 20) - (120u << 3);
    }
    bits = static_cast<std::uint8_t>(code | (u >> 24 & 0x80));
  }
  /// Exact.
  explicit constexpr operator float() const {
    const std::uint32_t size = bits & 0x7F;
    float value = size < 8 ? static_cast<float>(size) * 0x1p-9F
                           : std::bit_cast<float>((size + (120u << 3)) << 20);
    if (size == 0x7F) value = std::bit_cast<float>(0x7FC00000);
    return (bits & 0x80) != 0 ? -value : value;
  }
};

/// A block of llama.cpp's type Q8_0: value i is scale·values[i].
struct ADDNORM_API Q8Block {
  static constexpr std::size_t kValues = 32;

  Float16 scale;
  std::int8_t values[kValues];
};
static_assert(sizeof(Q8Block) == 34 && alignof(Q8Block) == 2);

/// The quantized y. One of int8, float8 and q8_0 is present. Consecutive values of a row share a
/// scale:
///
///     scale = max|y|/limit,   value = y·(1/scale), rounded to nearest even
///
/// limit is 127 for int8 and q8_0, and 448 for float8. Everything is float32; a double y is first
/// rounded to float32. If one of the values is NaN or infinite, their scale is NaN and the values
/// are 0. If max|y| is so small that 1/scale overflows (below 3.8e-37 for int8), scale and values
/// are 0. q8_0 stores the scale as float16: infinity for max|y| above 8.3e6. Its values are rounded
/// with the float32 scale, as llama.cpp does.
///
/// With a given scale, y·(1/scale) saturates at −128 and 127, or at ±448. NaN becomes 0 in int8,
/// and NaN in float8.
struct Quantized {
  MatrixView<std::int8_t> int8 = {};   ///< rows × features
  MatrixView<Float8E4M3> float8 = {};  ///< rows × features
  MatrixView<Q8Block> q8_0 = {};       ///< rows × features ÷ 32; it contains its scales
  /// The number of values that share a scale: 0 (the whole row) or 32, 64, 128, 256, 512 or 1024,
  /// which must divide the features. It is ignored for q8_0.
  std::size_t block = 0;
  /// Output of the scales for int8 and float8: rows × 1, or rows × features ÷ block.
  MatrixView<float> scales = {};
  float given_scale = 0;  ///< one scale for all values of int8 or float8; 0: scales are computed

  constexpr bool empty() const { return int8.empty() && float8.empty() && q8_0.empty(); }
};

/// The epilogue of AddNormForward.
template <typename Stream, typename Branch = Stream>
struct Epilogue {
  static_assert(check_storage<Stream, Branch>());
  using Value = Arithmetic<Stream>;

  Gate<Branch> gate = {};
  Modulation<Value> modulation = {};
  Quantized quantized = {};
  MatrixView<Value> unrounded = {};  ///< output: y in the type of arithmetic; absent: not wanted

  /// Whether there is no epilogue.
  constexpr bool empty() const {
    return gate.z.empty() && modulation.empty() && quantized.empty() && unrounded.empty();
  }
  /// Whether y may be absent.
  constexpr bool has_output() const { return !quantized.empty() || !unrounded.empty(); }
};

/// The backward of a gate and a modulation, in the same pass as the norm's (AddNormBackward). With
/// n the norm's output, m = n ⊙ act(z) and y = m ⊙ (1 + scale) + shift:
///
///     d_shift = Σ dy,  d_scale = Σ dy ⊙ m,  dm = dy ⊙ (1 + scale),  dz = dm ⊙ n ⊙ act′(z)
///
/// and dm ⊙ act(z) is the gradient of n. Sums are over the rows of a sample. n is computed again
/// from s. With a gate before the norm, du is the gradient of u = s ⊙ act(z); then dz = du ⊙ s ⊙
/// act′(z), and the norm's part of dx is du ⊙ act(z). Sums run in a fixed order, so their bits do
/// not depend on the number of threads.
template <typename Stream, typename Branch = Stream>
struct EpilogueBackward {
  static_assert(check_storage<Stream, Branch>());
  using Value = Arithmetic<Stream>;

  Gate<Branch> gate = {};             ///< as in forward
  Modulation<Value> modulation = {};  ///< as in forward
  std::span<const Value> beta = {};   ///< as in forward
  MatrixView<Branch> dz = {};         ///< may be z or dy; absent: not wanted
  MatrixView<Value> d_scale = {};     ///< samples × features; absent: not wanted
  MatrixView<Value> d_shift = {};     ///< samples × features; absent: not wanted

  /// Whether there is no epilogue.
  constexpr bool empty() const { return gate.z.empty() && modulation.empty(); }
};

}  // namespace addnorm
