/// Dropout's factors, pack by pack.

#pragma once

#include "addnorm/norm.h"
#include "base/philox.h"
#include "kernels/simd/pack.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

/// The number of consecutive Philox blocks, of four words each, that are computed together.
inline constexpr std::size_t kPhiloxBlocks = 16;

/// Converts random words to dropout factors.
template <Looped V, std::size_t N>
HWY_NOINLINE void kept(const std::uint32_t* words, std::uint32_t threshold, V factor,
                       Pack<V, N>& p) {
  ADDNORM_EACH_LANE p.v[l] = words[l] < threshold ? V{0} : factor;
}

#if HWY_TARGET == HWY_SCALAR
inline HWY_NOINLINE void philox_words(std::uint64_t key, std::uint64_t counter, std::size_t blocks,
                                      std::uint32_t* words) {
  for (std::size_t b = 0; b < blocks; ++b) {
    const auto block = philox(key, counter + b);
    for (std::size_t w = 0; w < 4; ++w) words[4 * b + w] = block[w];
  }
}
#else
using Words = hn::CappedTag<std::uint32_t, 16>;
using WidePairs = hn::RepartitionToWide<Words>;

/// A counter in each 64-bit lane. Its words are in the lower halves of four vectors, whose upper
/// halves are ignored. The 64-bit product of a lower half then is the next round's two words.
struct Counters {
  hn::Vec<WidePairs> c[4];

  HWY_INLINE explicit Counters(std::uint64_t first) {
    const WidePairs d;
    c[0] = hn::Add(hn::Set(d, first), hn::Iota(d, 0));
    c[1] = hn::ShiftRight<32>(c[0]);
    c[2] = c[3] = hn::Zero(d);
  }
  HWY_INLINE void round(std::uint32_t k0, std::uint32_t k1) {
    const Words d;
    const WidePairs wide;
    const auto p0 = hn::MulEven(hn::BitCast(d, c[0]), hn::Set(d, 0xD2511F53));
    const auto p1 = hn::MulEven(hn::BitCast(d, c[2]), hn::Set(d, 0xCD9E8D57));
    c[0] = hn::Xor3(hn::ShiftRight<32>(p1), c[1], hn::BitCast(wide, hn::Set(d, k0)));
    c[1] = p1;
    c[2] = hn::Xor3(hn::ShiftRight<32>(p0), c[3], hn::BitCast(wide, hn::Set(d, k1)));
    c[3] = p0;
  }
  /// Stores the words of each counter, one counter after the other.
  HWY_INLINE void store(std::uint32_t* words) const {
    const Words d;
    const auto pair = [&](auto low, auto high) HWY_ATTR {
      return hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(high)), hn::BitCast(d, low));
    };
    hn::StoreInterleaved2(hn::BitCast(WidePairs(), pair(c[0], c[1])),
                          hn::BitCast(WidePairs(), pair(c[2], c[3])), WidePairs(),
                          reinterpret_cast<std::uint64_t*>(words));
  }
};

/// philox() of base/philox.h for `blocks` consecutive counters, a multiple of kPhiloxBlocks.
inline HWY_NOINLINE void philox_words(std::uint64_t key, std::uint64_t counter, std::size_t blocks,
                                      std::uint32_t* words) {
  constexpr std::size_t kLanes = hn::MaxLanes(WidePairs());
  constexpr std::size_t kSets = 2;  // two sets hide the latency of products
  for (std::size_t b = 0; b < blocks; b += kSets * kLanes) {
    Counters sets[kSets] = {Counters(counter + b), Counters(counter + b + kLanes)};
    auto k0 = static_cast<std::uint32_t>(key);
    auto k1 = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      ADDNORM_UNROLL for (Counters& set : sets) set.round(k0, k1);
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    for (std::size_t s = 0; s < kSets; ++s) sets[s].store(words + 4 * (b + s * kLanes));
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

/// to[i] = the factor, 0 or 1/(1 − p), of element `element` + i, for i < n ≤ kBlock. It may write
/// up to 31 more. Element e uses word e mod 4 of Philox block e/4, and is kept if that word is at
/// least p·2³².
template <typename V>
HWY_NOINLINE void dropout_factors(const Dropout& dropout, std::uint64_t element, std::size_t n,
                                  V* to) {
  element += dropout.offset;
  const std::size_t skipped = element % 4;
  constexpr std::size_t kTurn = 4 * kPhiloxBlocks;
  // The words of the n elements and of up to three skipped elements before them.
  HWY_ALIGN std::uint32_t words[kBlock + kTurn];
  const std::size_t blocks = (skipped + n + kTurn - 1) / kTurn * kPhiloxBlocks;
  philox_words(dropout.seed, element / 4, blocks, words);
  const auto threshold = static_cast<std::uint32_t>(dropout.probability * 4294967296.0);
  const V keep = static_cast<V>(1.0 / (1.0 - dropout.probability));
  for (std::size_t i = 0; i < n; i += kPack) {
    Pack<V> factors;
    kept(words + skipped + i, threshold, keep, factors);
    store(factors, to + i, Full());
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
