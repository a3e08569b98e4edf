#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "addnorm/api.h"

namespace addnorm {

/// The upper half of a float32: 8 bits of exponent, 7 of fraction. For storage only; every kernel
/// reads it into float32, computes there, and rounds to nearest even when it writes.
struct ADDNORM_API BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  /// Rounds to nearest even.
  explicit constexpr BFloat16(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    const bool nan = (u & 0x7FFFFFFF) > 0x7F800000;
    bits = static_cast<std::uint16_t>(nan ? u >> 16 | 0x40 : (u + 0x7FFF + (u >> 16 & 1)) >> 16);
  }
  /// Exact.
  explicit constexpr operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

/// IEEE 754 binary16: 5 bits of exponent, 10 of fraction; largest value 65504. For storage only.
struct ADDNORM_API Float16 {
  std::uint16_t bits = 0;

  Float16() = default;
  /// Rounds to nearest even; values from 65520 on become infinity.
  explicit constexpr Float16(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = u >> 16 & 0x8000;
    const std::uint32_t magnitude = u & 0x7FFFFFFF;
    std::uint32_t half;
    if (magnitude > 0x7F800000) {  // NaN: keeps the payload bits that fit, and is quiet
      half = 0x7E00 | (magnitude >> 13 & 0x3FF);
    } else if (magnitude >= 143u << 23) {  // at least 2¹⁶
      half = 0x7C00;
    } else if (magnitude < 113u << 23) {  // below 2⁻¹⁴: adding 0.5 leaves the fraction in place
      half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - (126u << 23);
    } else {
      half = (magnitude - (112u << 23) + 0xFFF + (magnitude >> 13 & 1)) >> 13;
    }
    bits = static_cast<std::uint16_t>(sign | half);
  }
  /// Exact.
  explicit constexpr operator float() const {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
    const std::uint32_t shifted = static_cast<std::uint32_t>(bits & 0x7FFF) << 13;
    // Scaled by 2¹¹² in float32, a subnormal becomes normal; infinities and NaN need one more step.
    float magnitude = std::bit_cast<float>(shifted) * std::bit_cast<float>(239u << 23);
    if (shifted >= 0x7C00u << 13) {
      magnitude = std::bit_cast<float>(shifted | 0x7F800000);
      if (shifted > 0x7C00u << 13) {
        magnitude = std::bit_cast<float>(shifted | 0x7FC00000);
      }
    }
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
};

/// The type of arithmetic: float for the 16-bit types, else the type itself.
template <typename T>
using Arithmetic = std::conditional_t<sizeof(T) == 2, float, T>;

/// Whether T is an arithmetic type, so that no conversion is needed.
template <typename T>
inline constexpr bool kIsArithmetic = std::is_same_v<T, Arithmetic<T>>;

}  // namespace addnorm
