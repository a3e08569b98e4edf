#include "io/quantized.h"

#include <cstdint>
#include <cstring>

#include "io/half.h"

namespace addnorm::io {
namespace {

constexpr std::size_t kSmall = 32;  // values of a small block, and of a part of a large one

float half_at(const std::byte* bytes) {
  Half bits;
  std::memcpy(&bits, bytes, sizeof bits);
  return widen(bits);
}

unsigned byte_at(const std::byte* bytes, std::size_t i) {
  return std::to_integer<unsigned>(bytes[i]);
}
int signed_byte(const std::byte* bytes, std::size_t i) {
  return static_cast<std::int8_t>(byte_at(bytes, i));
}

/// Returns the 4 bits of value i of 32, in 16 bytes: the lower halves of all bytes, then the upper
/// ones.
unsigned nibble(const std::byte* bytes, std::size_t i) {
  return byte_at(bytes, i % 16) >> (i < 16 ? 0 : 4) & 15;
}
/// Returns the fifth bit of value i of 32.
unsigned fifth_bit(const std::byte* bits, std::size_t i) {
  return byte_at(bits, i / 8) >> i % 8 & 1;
}

void q4_0(const std::byte* block, float* values) {
  const float d = half_at(block);
  for (std::size_t i = 0; i < kSmall; ++i) {
    values[i] = d * static_cast<float>(static_cast<int>(nibble(block + 2, i)) - 8);
  }
}

void q4_1(const std::byte* block, float* values) {
  const float d = half_at(block), m = half_at(block + 2);
  for (std::size_t i = 0; i < kSmall; ++i) {
    values[i] = d * static_cast<float>(nibble(block + 4, i)) + m;
  }
}

void q5_0(const std::byte* block, float* values) {
  const float d = half_at(block);
  for (std::size_t i = 0; i < kSmall; ++i) {
    const unsigned q = nibble(block + 6, i) | fifth_bit(block + 2, i) << 4;
    values[i] = d * static_cast<float>(static_cast<int>(q) - 16);
  }
}

void q5_1(const std::byte* block, float* values) {
  const float d = half_at(block), m = half_at(block + 2);
  for (std::size_t i = 0; i < kSmall; ++i) {
    const unsigned q = nibble(block + 8, i) | fifth_bit(block + 4, i) << 4;
    values[i] = d * static_cast<float>(q) + m;
  }
}

void q8_0(const std::byte* block, float* values) {
  const float d = half_at(block);
  for (std::size_t i = 0; i < kSmall; ++i) {
    values[i] = d * static_cast<float>(signed_byte(block + 2, i));
  }
}

/// The 16 levels of IQ4_NL and IQ4_XS, at unequal distances.
constexpr float kLevels[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                             1,    13,   25,  38,  53,  69,  89,  113};

void iq4_nl(const std::byte* block, float* values) {
  const float d = half_at(block);
  for (std::size_t i = 0; i < kSmall; ++i) values[i] = d * kLevels[nibble(block + 2, i)];
}

/// A block has d, 16 bits with the upper 2 bits of each part's scale, 4 bytes with the lower 4
/// bits, and 16 bytes for each part.
void iq4_xs(const std::byte* block, float* values) {
  const float d = half_at(block);
  for (std::size_t part = 0; part < 8; ++part) {
    const unsigned upper = byte_at(block, 2 + part / 4) >> part % 4 * 2 & 3;
    const unsigned lower = byte_at(block, 4 + part / 2) >> part % 2 * 4 & 15;
    const float scale = d * static_cast<float>(static_cast<int>(lower | upper << 4) - 32);
    for (std::size_t i = 0; i < kSmall; ++i) {
      values[part * kSmall + i] = scale * kLevels[nibble(block + 8 + part * 16, i)];
    }
  }
}

/// Returns the 2 bits of value i in a run of 32; 64 bytes hold eight runs, four in each half.
unsigned two_bits(const std::byte* bytes, std::size_t run, std::size_t i) {
  return byte_at(bytes, run / 4 * kSmall + i) >> run % 4 * 2 & 3;
}

/// A block has 16 bytes with scales and offsets of 4 bits, 64 bytes of values, d, m.
void q2_k(const std::byte* block, float* values) {
  const float d = half_at(block + 80), m = half_at(block + 82);
  for (std::size_t run = 0; run < 8; ++run) {
    for (std::size_t i = 0; i < kSmall; ++i) {
      const unsigned own = byte_at(block, run * 2 + i / 16);
      const float scale = d * static_cast<float>(own & 15);
      const float offset = m * static_cast<float>(own >> 4);
      const unsigned q = two_bits(block + 16, run, i);
      values[run * kSmall + i] = scale * static_cast<float>(q) - offset;
    }
  }
}

/// A block has 32 bytes of upper bits, 64 of lower two bits, 12 with scales of 6 bits, d.
void q3_k(const std::byte* block, float* values) {
  const std::byte* scales = block + 96;
  const float d = half_at(block + 108);
  for (std::size_t run = 0; run < 8; ++run) {
    for (std::size_t i = 0; i < kSmall; ++i) {
      const std::size_t part = run * 2 + i / 16;
      const unsigned lower = byte_at(scales, part % 8) >> part / 8 * 4 & 15;
      const unsigned upper = byte_at(scales, 8 + part % 4) >> part / 4 * 2 & 3;
      const float scale = d * static_cast<float>(static_cast<int>(lower | upper << 4) - 32);
      const unsigned q = two_bits(block + 32, run, i) | (byte_at(block, i) >> run & 1) << 2;
      values[run * kSmall + i] = scale * static_cast<float>(static_cast<int>(q) - 4);
    }
  }
}

/// The scale and the offset of a part of Q4_K and Q5_K, 6 bits each, in 12 bytes. For the first
/// four parts they are in bytes 0 to 3 and 4 to 7. For the others, bytes 8 to 11 have 4 bits of
/// each, and unused bits of the first bytes have the upper two.
struct PartScale {
  unsigned scale, offset;

  PartScale(const std::byte* bytes, std::size_t part) {
    const std::size_t j = part % 4;
    const unsigned first = byte_at(bytes, j), second = byte_at(bytes, 4 + j),
                   third = byte_at(bytes, 8 + j);
    scale = part < 4 ? first & 63 : (third & 15) | (first >> 6) << 4;
    offset = part < 4 ? second & 63 : third >> 4 | (second >> 6) << 4;
  }
};

/// `fifth` has a byte for each value of a part, with a bit for each part; it may be nullptr.
void k_parts(const std::byte* block, const std::byte* fifth, const std::byte* low, float* values) {
  const float d = half_at(block), m = half_at(block + 2);
  for (std::size_t part = 0; part < 8; ++part) {
    const PartScale own(block + 4, part);
    const float scale = d * static_cast<float>(own.scale);
    const float offset = m * static_cast<float>(own.offset);
    for (std::size_t i = 0; i < kSmall; ++i) {
      unsigned q = byte_at(low, part / 2 * kSmall + i) >> part % 2 * 4 & 15;
      if (fifth != nullptr) q |= (byte_at(fifth, i) >> part & 1) << 4;
      values[part * kSmall + i] = scale * static_cast<float>(q) - offset;
    }
  }
}

void q4_k(const std::byte* block, float* values) {
  k_parts(block, nullptr, block + 16, values);
}
void q5_k(const std::byte* block, float* values) {
  k_parts(block, block + 16, block + 48, values);
}

/// A block has 128 bytes of lower 4 bits, 64 of upper 2, 16 scales, d. Each half of the values has
/// its half of the bytes: two runs of 32 in the lower 4 bits, then two in the upper ones.
void q6_k(const std::byte* block, float* values) {
  const std::byte *low = block, *high = block + 128, *scales = block + 192;
  const float d = half_at(block + 208);
  for (std::size_t run = 0; run < 8; ++run) {
    const std::size_t half = run / 4, own = run % 4;
    for (std::size_t i = 0; i < kSmall; ++i) {
      const unsigned lower = byte_at(low, half * 64 + own % 2 * kSmall + i) >> own / 2 * 4 & 15;
      const unsigned upper = two_bits(high, run, i);
      const int q = static_cast<int>(lower | upper << 4) - 32;
      const float scale = d * static_cast<float>(signed_byte(scales, run * 2 + i / 16));
      values[run * kSmall + i] = scale * static_cast<float>(q);
    }
  }
}

void f4(const std::byte* block, float* values) {
  constexpr float kMagnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (const std::size_t i : {0, 1}) {
    const unsigned bits = byte_at(block, 0) >> 4 * i & 15;
    values[i] = kMagnitudes[bits & 7] * (bits < 8 ? 1.0F : -1.0F);
  }
}

}  // namespace

Dequantize dequantize(Dtype dtype) {
  switch (dtype) {
    case Dtype::kQ40:
      return q4_0;
    case Dtype::kQ41:
      return q4_1;
    case Dtype::kQ50:
      return q5_0;
    case Dtype::kQ51:
      return q5_1;
    case Dtype::kQ80:
      return q8_0;
    case Dtype::kIQ4NL:
      return iq4_nl;
    case Dtype::kIQ4XS:
      return iq4_xs;
    case Dtype::kQ2K:
      return q2_k;
    case Dtype::kQ3K:
      return q3_k;
    case Dtype::kQ4K:
      return q4_k;
    case Dtype::kQ5K:
      return q5_k;
    case Dtype::kQ6K:
      return q6_k;
    case Dtype::kF4:
      return f4;
    default:
      return nullptr;
  }
}

}  // namespace addnorm::io
