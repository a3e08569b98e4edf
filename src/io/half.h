#pragma once

#include <bit>
#include <cstdint>

namespace addnorm::io {

// The bits of a half, a bfloat16 or an 8-bit number (E4M3) as distinct types, and the exponent of a
// power of 2 (E8M0).
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
  // A half's exponent has the bias 15, a float's 127; the multiplication handles subnormals as
  // well.
  std::uint32_t wide = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  if ((bits & 0x7c00) == 0x7c00) wide |= 0x7f800000;  // Inf and NaN
  return std::bit_cast<float>(wide | (bits & 0x8000) << 16);
}

inline float widen(Float8 value) {
  const auto bits = static_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7f;
  // The bias of its exponent is 7.
  const float wide = std::bit_cast<float>(magnitude << 20) * 0x1p120F;
  const std::uint32_t known = magnitude == 0x7f ? 0x7fc00000 : std::bit_cast<std::uint32_t>(wide);
  return std::bit_cast<float>(known | (bits & 0x80) << 24);
}

inline float widen(PowerOf2 value) {
  const auto exponent = static_cast<std::uint32_t>(value);
  if (exponent == 0) return 0x1p-127F;  // a subnormal float
  return std::bit_cast<float>(exponent == 255 ? 0x7fc00000 : exponent << 23);
}

}  // namespace addnorm::io
