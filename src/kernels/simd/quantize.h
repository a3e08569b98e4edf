/// Rounds float32 to 8 bits (addnorm/epilogue.h, Quantized).

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "addnorm/epilogue.h"
#include "kernels/simd/pack.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

/// max |value| of packs, as the bits of a float32: NaN is the largest number.
class LargestSize {
 public:
  static constexpr std::uint32_t kSizeBits = 0x7FFFFFFF;  ///< all except the sign

#if HWY_TARGET == HWY_SCALAR
  HWY_INLINE void add(const Pack<float>& p) {
    for (const float value : p.v) {
      largest_ = HWY_MAX(largest_, std::bit_cast<std::uint32_t>(value) & kSizeBits);
    }
  }
  HWY_INLINE std::uint32_t bits() const {
    return largest_;
  }

 private:
  std::uint32_t largest_ = 0;
#else
  HWY_INLINE LargestSize() {
    for (auto& vector : largest_) vector = hn::Zero(I());
  }
  HWY_INLINE void add(const Pack<float>& p) {
    ADDNORM_UNROLL for (std::size_t k = 0; k < kVectors<kPack>; ++k) {
      largest_[k] =
          hn::Max(largest_[k], hn::And(hn::BitCast(I(), p.v[k]), hn::Set(I(), kSizeBits)));
    }
  }
  HWY_INLINE std::uint32_t bits() const {
    auto all = largest_[0];
    ADDNORM_UNROLL for (std::size_t k = 1; k < kVectors<kPack>; ++k) {
      all = hn::Max(all, largest_[k]);
    }
    return static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(I(), all)));
  }

 private:
  using I = hn::RebindToSigned<F32<kPack> >;

  hn::Vec<I> largest_[kVectors<kPack>];
#endif
};

/// Returns max |value| of n values, as LargestSize does.
std::uint32_t largest_bits(const float* values, std::size_t n);

/// Quantizes n values of row r from column `begin` on, at most kBlock and whole blocks of scales.
/// `largest` is largest_bits() of the row; it is read only if the row has one computed scale.
void quantize(const Quantized& quantized, std::size_t r, std::size_t begin, std::size_t n,
              const float* values, std::uint32_t largest);

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
