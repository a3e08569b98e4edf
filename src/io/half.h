#pragma once

#include <bit>
#include <cstdint>

namespace addnorm::io {

// Bits of a half, a bfloat16 or a number of 8 bits (E4M3), as types of their own, and the exponent
// of a power of 2 (E8M0).
enum class Half : std::uint16_t {};
enum class Bfloat16 : std::uint16_t {};
enum class Float8 : std::uint8_t {};
enum class PowerOf2 : std::uint8_t {};

/// The same value, exactly.
inline float widen(Bfloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

inline float widen(Half value) {
  const auto bits = static_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = (bits & 0x7fff) << 13;
  // A half counts its exponent from 15, a float from 127; the product does subnormals as well.
  std::uint32_t wide = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  if ((bits & 0x7c00) == 0x7c00) wide |= 0x7f800000;  // Inf and NaN
  return std::bit_cast<float>(wide | (bits & 0x8000) << 16);
}

inline float widen(Float8 value) {
  const auto bits = static_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7f;
  // Its exponent counts from 7.
  const float wide = std::bit_cast<float>(magnitude << 20) * 0x1p120F;
  const std::uint32_t known = magnitude == 0x7f ? 0x7fc00000 : std::bit_cast<std::uint32_t>(wide);
  return std::bit_cast<float>(known | (bits & 0x80) << 24);
}

inline float widen(PowerOf2 value) {
  const auto exponent = static_cast<std::uint32_t>(value);
  if (exponent == 0) return 0x1p-127F;  // below the normal numbers
  return std::bit_cast<float>(exponent == 255 ? 0x7fc00000 : exponent << 23);
}

}  // namespace addnorm::io
