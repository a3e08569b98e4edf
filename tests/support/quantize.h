#pragma once

/// Quantization in plain scalar code, for comparison with the kernels.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "addnorm/epilogue.h"

namespace addnorm::testing {

/// The integer nearest to `value`, from −128 to 127; halves go to even; NaN becomes 0.
inline std::int8_t round_to_int8(double value) {
  if (std::isnan(value)) return 0;
  return static_cast<std::int8_t>(std::nearbyint(std::fmin(std::fmax(value, -128.0), 127.0)));
}

/// The number of a code of E4M3: ±m·2^(e−10), with 8 added to m unless e is 0, which counts as 1.
inline double value_of_float8(std::uint8_t code) {
  const int exponent = code >> 3 & 15, fraction = code & 7;
  if (exponent == 15 && fraction == 7) return std::numeric_limits<double>::quiet_NaN();
  const double size =
      exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
  return (code & 0x80) != 0 ? -size : size;
}

/// The code of the number nearest to `value`, by search; halves go to the even code.
inline std::uint8_t round_to_float8(double value) {
  if (std::isnan(value)) return 0x7F;
  const double size = std::fmin(std::abs(value), 448.0);
  std::uint8_t best = 0;
  for (std::uint8_t code = 1; code < 0x7F; ++code) {
    const double error = std::abs(value_of_float8(code) - size);
    const double least = std::abs(value_of_float8(best) - size);
    if (error < least || (error == least && code % 2 == 0)) best = code;
  }
  return static_cast<std::uint8_t>(best | (std::signbit(value) ? 0x80 : 0));
}

enum class QuantizedType { kNone, kInt8, kFloat8, kQ8_0 };

/// Memory for quantized rows, and the values expected in it.
struct QuantizedMemory {
  QuantizedType type;
  std::size_t rows, cols, stride, block;
  float given_scale;
  std::vector<std::int8_t> int8;
  std::vector<Float8E4M3> float8;
  std::vector<Q8Block> q8_0;
  std::vector<float> scales;

  QuantizedMemory(QuantizedType type_, std::size_t rows_, std::size_t cols_, std::size_t stride_,
                  std::size_t block_, float given)
      : type(type_), rows(rows_), cols(cols_), stride(stride_), block(block_), given_scale(given) {
    if (type == QuantizedType::kInt8) int8.resize(rows * stride, 99);
    if (type == QuantizedType::kFloat8) float8.resize(rows * stride);
    if (type == QuantizedType::kQ8_0) q8_0.resize(rows * (cols / 32));
    const bool computes = type == QuantizedType::kInt8 || type == QuantizedType::kFloat8;
    if (computes && given == 0) scales.resize(rows * of_row());
  }
  std::size_t of_row() const { return block == 0 ? 1 : cols / block; }

  Quantized view() {
    Quantized q{.block = block, .given_scale = given_scale};
    if (!int8.empty()) q.int8 = {int8.data(), rows, cols, stride};
    if (!float8.empty()) q.float8 = {float8.data(), rows, cols, stride};
    if (!q8_0.empty()) q.q8_0 = {q8_0.data(), rows, cols / 32};
    if (!scales.empty()) q.scales = {scales.data(), rows, of_row()};
    if (type == QuantizedType::kQ8_0) q.block = 0;
    if (type == QuantizedType::kNone) return {};
    return q;
  }

  bool operator==(const QuantizedMemory& other) const {
    const auto same = [](const auto& a, const auto& b) {
      return a.size() == b.size() &&
             (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(a[0])) == 0);
    };
    return same(int8, other.int8) && same(float8, other.float8) && same(q8_0, other.q8_0) &&
           same(scales, other.scales);
  }

  /// Checks that the memory holds the quantized rows of `y`, whose stride is that of the outputs.
  void expect_of(const std::vector<float>& y) const {
    if (type == QuantizedType::kNone) return;
    const std::size_t size = type == QuantizedType::kQ8_0 ? 32 : block == 0 ? cols : block;
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t begin = 0; begin < cols; begin += size) {
        expect_block(y.data() + r * stride + begin, r, begin, size);
      }
    }
  }

 private:
  void expect_block(const float* y, std::size_t r, std::size_t begin, std::size_t size) const {
    float scale = given_scale;
    if (given_scale == 0) {
      float largest = 0;
      bool finite = true;
      for (std::size_t i = 0; i < size; ++i) {
        finite = finite && std::isfinite(y[i]);
        largest = std::fmax(largest, std::abs(y[i]));
      }
      scale = largest / (type == QuantizedType::kFloat8 ? 448.0F : 127.0F);
      if (std::isinf(1 / scale)) scale = 0;
      if (!finite) scale = std::numeric_limits<float>::quiet_NaN();
      expect_scale(scale, r, begin, size);
    }
    const bool zero = scale == 0 || std::isnan(scale);
    const float inverse = zero ? 0 : 1 / scale;
    for (std::size_t i = 0; i < size; ++i) {
      const float scaled = zero ? 0 : y[i] * inverse;
      if (type == QuantizedType::kFloat8) {
        const std::uint8_t expected = zero ? 0 : round_to_float8(scaled);
        ASSERT_EQ(float8[r * stride + begin + i].bits, expected) << scaled << " at " << r;
      } else {
        const std::int8_t actual = type == QuantizedType::kInt8
                                       ? int8[r * stride + begin + i]
                                       : q8_0[(r * cols + begin) / 32].values[i];
        ASSERT_EQ(actual, round_to_int8(scaled)) << scaled << " at " << r;
      }
    }
  }
  void expect_scale(float scale, std::size_t r, std::size_t begin, std::size_t size) const {
    if (type == QuantizedType::kQ8_0) {
      ASSERT_EQ(q8_0[(r * cols + begin) / 32].scale.bits, Float16(scale).bits);
      return;
    }
    const float actual = scales[r * of_row() + begin / size];
    if (std::isnan(scale)) {
      ASSERT_TRUE(std::isnan(actual));
    } else {
      ASSERT_EQ(actual, scale);
    }
  }
};

}  // namespace addnorm::testing
