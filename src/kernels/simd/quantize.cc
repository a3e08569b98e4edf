#include "kernels/simd/quantize.h"

#include <bit>
#include <cstring>
#include <limits>

#include "kernels/simd/pack.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {
namespace {

constexpr std::uint32_t kInfinity = 0x7F800000;
constexpr float kRounder = 12582912.0F;  // 1.5·2²³: leaves an integer in the low bits

#if HWY_TARGET == HWY_SCALAR

struct Int8Code {
  static constexpr float kLimit = 127;

  /// Without kSaturate, |value| is below 128.
  template <bool kSaturate>
  static std::uint8_t of(float value) {
    if (kSaturate) {
      if (value != value) value = 0;
      value = value < -128.0F ? -128.0F : value > 127.0F ? 127.0F : value;
    }
    return static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(value + kRounder));
  }
};

struct Float8Code {
  static constexpr float kLimit = 448;

  template <bool>
  static std::uint8_t of(float value) {
    return Float8E4M3(value).bits;
  }
};

template <typename Code, bool kSaturate>
HWY_INLINE void encode(const float* values, std::size_t n, float inverse, std::uint8_t* to) {
  for (std::size_t i = 0; i < n; ++i) to[i] = Code::template of<kSaturate>(values[i] * inverse);
}

#else

using F = F32<kPack>;
using I = hn::RebindToSigned<F>;

HWY_INLINE hn::Vec<I> bits_of(float value) {
  return hn::Set(I(), std::bit_cast<std::int32_t>(value));
}

struct Int8Code {
  static constexpr float kLimit = 127;
  using Byte = std::int8_t;

  /// Returns integers that saturate when they are narrowed. Without kSaturate, |value| is below
  /// 2²².
  template <bool kSaturate>
  static HWY_INLINE hn::Vec<I> of(hn::Vec<F> value) {
    if constexpr (kSaturate) {
      value = hn::IfThenElseZero(hn::Eq(value, value), value);
      value = hn::Min(hn::Max(value, hn::Set(F(), -128.0F)), hn::Set(F(), 127.0F));
    }
    const auto rounded = hn::Add(value, hn::Set(F(), kRounder));
    return hn::Sub(hn::BitCast(I(), rounded), bits_of(kRounder));
  }
};

/// The same conversion as Float8E4M3's own.
struct Float8Code {
  static constexpr float kLimit = 448;
  using Byte = std::uint8_t;

  template <bool kSaturate>
  static HWY_INLINE hn::Vec<I> of(hn::Vec<F> value) {
    const F f;
    const I i;
    const hn::RebindToUnsigned<F> u;
    const auto bits = hn::BitCast(i, value);
    const auto all = hn::And(bits, hn::Set(i, LargestSize::kSizeBits));
    auto size = all;
    if constexpr (kSaturate) size = hn::Min(size, bits_of(kLimit));
    const auto odd = hn::And(hn::ShiftRight<20>(size), hn::Set(i, 1));
    const auto rounded = hn::Add(hn::Add(size, hn::Set(i, 0x7FFFF)), odd);
    const auto normal = hn::Sub(hn::ShiftRight<20>(rounded), hn::Set(i, 120 << 3));
    const auto shifted = hn::Add(hn::BitCast(f, size), hn::Set(f, 16384.0F));
    const auto small = hn::Sub(hn::BitCast(i, shifted), bits_of(16384.0F));
    auto code = hn::IfThenElse(hn::Lt(size, hn::Set(i, 121 << 23)), small, normal);
    const auto sign = hn::BitCast(i, hn::ShiftRight<24>(hn::BitCast(u, value)));
    code = hn::Or(code, hn::And(sign, hn::Set(i, 0x80)));
    if constexpr (kSaturate) {
      code = hn::IfThenElse(hn::Gt(all, hn::Set(i, kInfinity)), hn::Set(i, 0x7F), code);
    }
    return code;
  }
};

/// Encodes a pack into 32 bytes.
template <typename Code, bool kSaturate>
HWY_INLINE void encode(const Pack<float>& values, float inverse, std::uint8_t* to) {
  using Byte = typename Code::Byte;
  const auto factor = hn::Set(F(), inverse);
#if HWY_TARGET == HWY_AVX2  // one order for all four vectors, not one for each
  __m256i codes[kVectors<kPack>];
  ADDNORM_UNROLL for (std::size_t k = 0; k < kVectors<kPack>; ++k) {
    codes[k] = Code::template of<kSaturate>(hn::Mul(values.v[k], factor)).raw;
  }
  const __m256i low = _mm256_packs_epi32(codes[0], codes[1]);
  const __m256i high = _mm256_packs_epi32(codes[2], codes[3]);
  const __m256i mixed =
      std::is_signed_v<Byte> ? _mm256_packs_epi16(low, high) : _mm256_packus_epi16(low, high);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permutevar8x32_epi32(mixed, order));
#else
  const hn::Rebind<Byte, F> bytes;
  ADDNORM_UNROLL for (std::size_t k = 0; k < kVectors<kPack>; ++k) {
    const auto codes = Code::template of<kSaturate>(hn::Mul(values.v[k], factor));
    hn::StoreU(hn::DemoteTo(bytes, codes), bytes, reinterpret_cast<Byte*>(to) + k * kVector<kPack>);
  }
#endif
}
template <typename Code, bool kSaturate>
HWY_INLINE void encode(const float* values, std::size_t n, float inverse, std::uint8_t* to) {
  std::size_t i = 0;
  for (; i + kPack <= n; i += kPack) {
    encode<Code, kSaturate>(load(values + i, Full()), inverse, to + i);
  }
  if (i == n) return;
  std::uint8_t buffer[kPack];
  encode<Code, kSaturate>(load(values + i, Tail{n - i}), inverse, buffer);
  std::memcpy(to + i, buffer, n - i);
}

#endif  // HWY_TARGET == HWY_SCALAR

HWY_INLINE std::uint32_t largest_size(const float* values, std::size_t n) {
  LargestSize largest;
  for_each_pack(
      n, [&](std::size_t i, auto count) ADDNORM_BODY { largest.add(load(values + i, count)); });
  return largest.bits();
}

struct Scaling {
  float scale, inverse;

  /// `largest` is max |value| as bits.
  HWY_INLINE Scaling(std::uint32_t largest, float limit)
      : scale(std::bit_cast<float>(largest) / limit), inverse(1.0F / scale) {
    if (HWY_UNLIKELY(largest >= kInfinity)) {
      scale = std::numeric_limits<float>::quiet_NaN();
      inverse = 0;
    } else if (HWY_UNLIKELY(!(inverse <= std::numeric_limits<float>::max()))) {
      scale = inverse = 0;
    }
  }
};

/// Encodes values with a computed scale.
template <typename Code>
HWY_INLINE void encode(const float* values, std::size_t n, const Scaling& scaling,
                       std::uint8_t* to) {
  if (HWY_LIKELY(scaling.inverse > 0)) {
    encode<Code, false>(values, n, scaling.inverse, to);
  } else {
    std::memset(to, 0, n);
  }
}

/// Quantizes to a byte for each value, at `to`.
template <typename Code>
HWY_INLINE void quantize_bytes(const Quantized& q, std::size_t r, std::size_t begin, std::size_t n,
                               const float* values, std::uint32_t largest, std::uint8_t* to) {
  if (q.given_scale != 0) return encode<Code, true>(values, n, 1.0F / q.given_scale, to);
  float* const scales = q.scales.row(r).data();
  if (q.block == 0) {
    const Scaling scaling(largest, Code::kLimit);
    scales[0] = scaling.scale;
    return encode<Code>(values, n, scaling, to);
  }
  for (std::size_t i = 0; i < n; i += q.block) {
    const Scaling scaling(largest_size(values + i, q.block), Code::kLimit);
    scales[(begin + i) / q.block] = scaling.scale;
    encode<Code>(values + i, q.block, scaling, to + i);
  }
}

HWY_INLINE void quantize_blocks(std::size_t n, const float* values, Q8Block* to) {
  for (std::size_t i = 0; i < n; i += Q8Block::kValues, ++to) {
    const Scaling scaling(largest_size(values + i, Q8Block::kValues), Int8Code::kLimit);
    to->scale = Float16(scaling.scale);
    encode<Int8Code>(values + i, Q8Block::kValues, scaling,
                     reinterpret_cast<std::uint8_t*>(to->values));
  }
}

}  // namespace

HWY_NOINLINE std::uint32_t largest_bits(const float* values, std::size_t n) {
  return largest_size(values, n);
}

HWY_NOINLINE void quantize(const Quantized& q, std::size_t r, std::size_t begin, std::size_t n,
                           const float* values, std::uint32_t largest) {
  if (!q.q8_0.empty()) {
    quantize_blocks(n, values, q.q8_0.row(r).data() + begin / Q8Block::kValues);
  } else if (!q.int8.empty()) {
    auto* const to = reinterpret_cast<std::uint8_t*>(q.int8.row(r).data() + begin);
    quantize_bytes<Int8Code>(q, r, begin, n, values, largest, to);
  } else {
    auto* const to = reinterpret_cast<std::uint8_t*>(q.float8.row(r).data() + begin);
    quantize_bytes<Float8Code>(q, r, begin, n, values, largest, to);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
