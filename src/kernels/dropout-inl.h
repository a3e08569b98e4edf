/// Dropout's factors, pack by pack. Included once for each instruction set.

#if defined(ADDNORM_KERNELS_DROPOUT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ADDNORM_KERNELS_DROPOUT_INL_H
#undef ADDNORM_KERNELS_DROPOUT_INL_H
#else
#define ADDNORM_KERNELS_DROPOUT_INL_H
#endif

#include "addnorm/norm.h"
#include "base/philox.h"
#include "kernels/pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm {
namespace HWY_NAMESPACE {

/// The words of so many consecutive Philox blocks, four each, are made at once.
inline constexpr std::size_t kPhiloxBlocks = 16;

/// The factors that so many words stand for.
template <Looped V, std::size_t N>
HWY_NOINLINE void kept(const std::uint32_t* words, std::uint32_t threshold, V factor,
                       Pack<V, N>& p) {
  ADDNORM_EACH_LANE p.v[l] = words[l] < threshold ? V{0} : factor;
}

#if HWY_TARGET == HWY_SCALAR
inline HWY_NOINLINE void philox_words(std::uint64_t key, std::uint64_t counter,
                                      std::uint32_t* words) {
  for (std::size_t b = 0; b < kPhiloxBlocks; ++b) {
    const auto block = philox(key, counter + b);
    for (std::size_t w = 0; w < 4; ++w) words[4 * b + w] = block[w];
  }
}
#else
/// Both halves of the 64-bit products of each lane with one factor.
using Words = hn::CappedTag<std::uint32_t, 16>;
struct Products {
  hn::Vec<Words> low, high;
};
HWY_INLINE Products multiply(hn::Vec<Words> v, std::uint32_t factor) {
  const Words d;
  const hn::RepartitionToWide<Words> wide;
  const auto f = hn::Set(d, factor);
  const auto even = hn::MulEven(v, f);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, v))), f);
  return {hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even)),
          hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)))};
}

/// philox() of base/philox.h for consecutive counters, one in each lane.
inline HWY_NOINLINE void philox_words(std::uint64_t key, std::uint64_t counter,
                                      std::uint32_t* words) {
  const Words d;
  for (std::size_t b = 0; b < kPhiloxBlocks; b += hn::MaxLanes(d)) {
    const std::uint64_t first = counter + b;
    const auto low = hn::Set(d, static_cast<std::uint32_t>(first));
    const auto high = hn::Set(d, static_cast<std::uint32_t>(first >> 32));
    auto c0 = hn::Add(low, hn::Iota(d, 0));
    auto c1 = hn::Sub(high, hn::VecFromMask(d, hn::Lt(c0, low)));  // the carry
    auto c2 = hn::Zero(d);
    auto c3 = hn::Zero(d);
    auto k0 = static_cast<std::uint32_t>(key);
    auto k1 = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      const Products p0 = multiply(c0, 0xD2511F53);
      const Products p1 = multiply(c2, 0xCD9E8D57);
      c0 = hn::Xor(hn::Xor(p1.high, c1), hn::Set(d, k0));
      c1 = p1.low;
      c2 = hn::Xor(hn::Xor(p0.high, c3), hn::Set(d, k1));
      c3 = p0.low;
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    hn::StoreInterleaved4(c0, c1, c2, c3, d, words + 4 * b);
  }
}

template <std::size_t N>
HWY_INLINE void kept(const std::uint32_t* words, std::uint32_t threshold, float factor,
                     Pack<float, N>& p) {
  const F32<N> f;
  const U32<F32<N> > u;
  ADDNORM_EACH_VECTOR {
    const auto word = hn::LoadU(u, words + k * kVector<N>);
    const auto dropped = hn::RebindMask(f, hn::Lt(word, hn::Set(u, threshold)));
    p.v[k] = hn::IfThenZeroElse(dropped, hn::Set(f, factor));
  }
}
#endif  // HWY_TARGET != HWY_SCALAR

/// The factor of each element: 0 or 1/(1 − p). Element e takes word e mod 4 of Philox block e/4 and
/// stays where that word is at least p·2³².
template <typename V>
class DropoutFactors {
 public:
  HWY_INLINE explicit DropoutFactors(const Dropout& dropout)
      : dropout_(dropout),
        threshold_(static_cast<std::uint32_t>(dropout.probability * 4294967296.0)),
        keep_(static_cast<V>(1.0 / (1.0 - dropout.probability))) {}

  /// Of the 32 elements from `element` on.
  HWY_INLINE Pack<V> operator()(std::uint64_t element) {
    element += dropout_.offset;
    if (!filled_ || element - first_ > kWords - kPack) {
      filled_ = true;
      first_ = element / 4 * 4;
      philox_words(dropout_.seed, first_ / 4, words_);
    }
    Pack<V> factors;
    kept(words_ + (element - first_), threshold_, keep_, factors);
    return factors;
  }

 private:
  static constexpr std::size_t kWords = 4 * kPhiloxBlocks;

  const Dropout& dropout_;
  std::uint32_t threshold_;
  V keep_;
  bool filled_ = false;
  std::uint64_t first_ = 0;  ///< the element of words_[0]
  HWY_ALIGN std::uint32_t words_[kWords];
};

}  // namespace HWY_NAMESPACE
}  // namespace addnorm
HWY_AFTER_NAMESPACE();

#endif  // the guard for each instruction set
