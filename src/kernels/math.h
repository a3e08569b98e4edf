#pragma once

/// Functions that a compiler can vectorize and that give the same bits on every machine in float32.
/// float64 takes the standard library's: it is there for references and tests.

#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace addnorm::math {

/// exp(x) to about 1 ulp: 2ⁿ·exp(r) with r = x − n·ln 2, |r| ≤ ln 2/2, and a polynomial for exp(r)
/// (Cephes expf). 0 below −87.7 and Inf above 88.3; NaN stays NaN.
inline float exp(float x) {
  x = x < -88.0F ? -88.0F : x;
  x = x > 88.7F ? 88.7F : x;
  constexpr float kRounder = 12582912.0F;  // 1.5·2²³: adding it leaves n in the low bits
  const float shifted = x * std::numbers::log2e_v<float> + kRounder;
  const float n = shifted - kRounder;
  const float r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r + 1.0F;
  const std::uint32_t power = (std::bit_cast<std::uint32_t>(shifted) + 127U) << 23;
  return p * std::bit_cast<float>(power);
}
inline double exp(double x) {
  return std::exp(x);
}

/// erfc(z) to 4e-7, and to 1.2e-6 of itself below z = 3: a Chebyshev fit (Press et al., Numerical
/// Recipes, section 6.2).
inline float erfc(float z) {
  const float a = std::fabs(z);
  const float t = 1.0F / (1.0F + 0.5F * a);
  float p = 0.17087277F;
  p = p * t - 0.82215223F;
  p = p * t + 1.48851587F;
  p = p * t - 1.13520398F;
  p = p * t + 0.27886807F;
  p = p * t - 0.18628806F;
  p = p * t + 0.09678418F;
  p = p * t + 0.37409196F;
  p = p * t + 1.00002368F;
  p = p * t - 1.26551223F;
  const float tail = t * exp(p - a * a);
  return z < 0.0F ? 2.0F - tail : tail;
}
inline double erfc(double z) {
  return std::erfc(z);
}

template <typename T>
T sigmoid(T x) {
  return T{1} / (T{1} + exp(-x));
}

}  // namespace addnorm::math
