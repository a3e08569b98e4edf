/// A part of pack.h: float32 from and to words of 16 bits, bfloat16 and float16.

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

/// The 16-bit words that correspond to vector k of a float32 pack.
template <std::size_t N, typename T>
HWY_INLINE hn::Vec<U16<F32<N>>> words_of_vector(const Stored<T, N>& s, std::size_t k) {
  if constexpr (kPaired<N>) {
    const U16<F32<N>> half;
    const auto words = s.v[k / 2];
    return k % 2 == 0 ? hn::LowerHalf(half, words) : hn::UpperHalf(half, words);
  } else {
    return s.v[k];
  }
}

// bfloat16: the upper halves of float32.

#if HWY_TARGET == HWY_AVX3
// Constants from inline assembly stay in registers. The compiler rebuilds other constants in each
// iteration, which takes a Zen 5 two cycles for a mask.
HWY_INLINE __mmask32 constant_mask(std::uint32_t bits) {
  __mmask32 mask;
  asm("kmovd %1, %0" : "=k"(mask) : "r"(bits));
  return mask;
}
template <class D>
HWY_INLINE hn::Vec<D> constant_words(D, std::uint16_t word) {
  hn::Vec<D> words;
  asm("vpbroadcastw %1, %0" : "=v"(words.raw) : "r"(static_cast<std::uint32_t>(word)));
  return words;
}
#endif

template <std::size_t N>
HWY_INLINE Pack<float, N> value_of(const Stored<BFloat16, N>& s) {
  Pack<float, N> p;
#if HWY_TARGET == HWY_AVX3
  if constexpr (kPaired<N>) {  // one shuffle in place of two or three steps
    const hn::Full512<std::uint32_t> u;
    const __mmask32 upper = constant_mask(0xAAAAAAAA);
    ADDNORM_EACH_VECTOR {
      const auto lanes = hn::ShiftLeft<16>(hn::Iota(u, k % 2 == 0 ? 0 : 16));
      p.v[k].raw =
          _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(upper, lanes.raw, s.v[k / 2].raw));
    }
    return p;
  }
#endif
  ADDNORM_EACH_VECTOR {
    const auto bits = hn::PromoteTo(U32<F32<N>>(), words_of_vector(s, k));
    p.v[k] = hn::BitCast(F32<N>(), hn::ShiftLeft<16>(bits));
  }
  return p;
}

/// Rounds to nearest even: the upper halves, plus 1 if the lower ones are more than half, or
/// exactly half with an odd upper one. A NaN from arithmetic, with the highest bit of the fraction
/// set, is unchanged.
template <class D>
HWY_INLINE hn::Vec<D> round_to_even(D d, hn::Vec<D> upper, hn::Vec<D> lower) {
  const auto one = hn::Set(d, 1);
  const auto quiet = hn::Set(d, 0x7FC0);
  const auto half = hn::Sub(hn::Set(d, 0x8000), hn::And(upper, one));
  const auto up = hn::Gt(lower, half);
  const auto is_nan = hn::Eq(hn::And(upper, quiet), quiet);
  return hn::IfThenElse(hn::AndNot(is_nan, up), hn::Add(upper, one), upper);
}

#if HWY_TARGET == HWY_AVX3
/// AVX512_BF16, which Highway's target does not require.
inline const bool kRoundsToBFloat16 = __builtin_cpu_supports("avx512bf16") != 0;

template <std::size_t N>
HWY_INLINE bool has_subnormal(const Pack<float, N>& p) {
  const U32<F32<N>> u;
  bool found = false;
  ADDNORM_EACH_VECTOR {
    const auto size = hn::And(hn::BitCast(u, p.v[k]), hn::Set(u, 0x7FFFFFFF));
    found |= !hn::AllFalse(u, hn::Lt(hn::Sub(size, hn::Set(u, 1)), hn::Set(u, 0x7FFFFF)));
  }
  return found;
}

// Without `volatile`, a compiler may move the instruction to code that runs on processors without
// AVX512_BF16. The result is returned by value: an array written this way would go through memory.
template <class D, class V>
HWY_INLINE hn::Vec<D> convert(D, V v) {
  hn::Vec<D> words;
  asm volatile("vcvtneps2bf16 %1, %0" : "=v"(words.raw) : "v"(v.raw));
  return words;
}
template <class D, class V>
HWY_INLINE hn::Vec<D> convert(D, V low, V high) {
  hn::Vec<D> words;
  asm volatile("vcvtne2ps2bf16 %1, %2, %0" : "=v"(words.raw) : "v"(low.raw), "v"(high.raw));
  return words;
}

/// Rounds with one instruction for each vector of words, on processors that have it. The
/// instruction flushes subnormal numbers to 0.
template <std::size_t N>
HWY_INLINE Stored<BFloat16, N> round_at_once(const Pack<float, N>& p) {
  Stored<BFloat16, N> s;
  ADDNORM_UNROLL for (std::size_t k = 0; k < kWordVectors<N>; ++k) {
    if constexpr (kPaired<N>) {
      s.v[k] = convert(Word<N>(), p.v[2 * k], p.v[2 * k + 1]);
    } else {
      s.v[k] = convert(Word<N>(), p.v[k]);
    }
  }
  return s;
}
/// Whether round_at_once() flushed a nonzero value. This is impossible if each word has one of the
/// bits `exponent`, which is tested first.
template <std::size_t N, typename Count>
HWY_INLINE bool lost_subnormal(const Pack<float, N>& p, const Stored<BFloat16, N>& words,
                               std::uint16_t exponent, Count count) {
  const Word<N> d;
  const auto bits = constant_words(d, exponent);
  const auto is_normal = [&](std::size_t k) HWY_ATTR {
    const auto found = hn::TestBit(words.v[k], bits);
    if constexpr (std::is_same_v<Count, Full>) {
      return found;
    } else {
      return hn::Or(found, hn::Not(tail_mask(d, count, k)));
    }
  };
  auto normal = is_normal(0);
  ADDNORM_UNROLL for (std::size_t k = 1; k < kWordVectors<N>; ++k) {
    normal = hn::And(normal, is_normal(k));
  }
  return HWY_UNLIKELY(!hn::AllTrue(d, normal)) && has_subnormal(p);
}
#endif

template <std::size_t N>
HWY_INLINE Stored<BFloat16, N> round_in_words(const Pack<float, N>& p) {
  const Word<N> d;
  Stored<BFloat16, N> s;
  ADDNORM_UNROLL for (std::size_t k = 0; k < kWordVectors<N>; ++k) {
    if constexpr (kPaired<N>) {
      const auto low = hn::BitCast(d, p.v[2 * k]);
      const auto high = hn::BitCast(d, p.v[2 * k + 1]);
      s.v[k] = round_to_even(d, hn::ConcatOdd(d, high, low), hn::ConcatEven(d, high, low));
    } else {
      const auto bits = hn::BitCast(U32<F32<N>>(), p.v[k]);
      s.v[k] =
          round_to_even(d, hn::TruncateTo(d, hn::ShiftRight<16>(bits)), hn::TruncateTo(d, bits));
    }
  }
  return s;
}
template <std::size_t N, typename Count = Full>
HWY_INLINE Stored<BFloat16, N> as_stored(BFloat16, const Pack<float, N>& p,
                                         [[maybe_unused]] Count count = {}) {
#if HWY_TARGET == HWY_AVX3
  if (HWY_LIKELY(kRoundsToBFloat16)) {
    const Stored<BFloat16, N> s = round_at_once(p);
    if (HWY_LIKELY(!lost_subnormal(p, s, 0x7F80, count))) return s;
  }
#endif
  return round_in_words(p);
}
/// The same for sums of `x` and another bfloat16. They are 0 too often for a predictable branch,
/// but subnormal only if x is below 2^−111: else both are multiples of 2^−119.
template <std::size_t N, typename Count>
HWY_INLINE Stored<BFloat16, N> sum_as_stored(const Pack<float, N>& sum,
                                             [[maybe_unused]] const BFloat16* x, Count count) {
#if HWY_TARGET == HWY_AVX3
  if (HWY_LIKELY(kRoundsToBFloat16)) {
    const Stored<BFloat16, N> s = round_at_once(sum);
    const Stored<BFloat16, N> terms = load_stored<BFloat16, N>(x, count);
    if (HWY_LIKELY(!lost_subnormal(sum, terms, 0x7800, count))) return s;
  }
  return round_in_words(sum);
#else
  return as_stored(BFloat16(), sum, count);
#endif
}

// float16

#undef ADDNORM_HAVE_F16
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || (HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64)
#define ADDNORM_HAVE_F16 1
#else
#define ADDNORM_HAVE_F16 0
#endif

#if ADDNORM_HAVE_F16
template <class D>
HWY_INLINE hn::Vec<D> from_half(D f, hn::Vec<U16<D>> words) {
  return hn::PromoteTo(f, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), words));
}
template <class D>
HWY_INLINE hn::Vec<U16<D>> to_half(D, hn::Vec<D> v) {
  return hn::BitCast(U16<D>(), hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), v));
}
#else
// The same conversions as Float16's own.
template <class D>
HWY_NOINLINE hn::Vec<D> from_half(D f, hn::Vec<U16<D>> words) {
  const U32<D> u;
  const auto bits = hn::PromoteTo(u, words);
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(u, 0x8000)));
  const auto shifted = hn::ShiftLeft<13>(hn::And(bits, hn::Set(u, 0x7FFF)));
  const auto scale = hn::BitCast(f, hn::Set(u, 239u << 23));
  const auto finite = hn::BitCast(u, hn::Mul(hn::BitCast(f, shifted), scale));
  const auto infinity = hn::Set(u, 0x7C00u << 13);
  const auto special = hn::Or(
      shifted,
      hn::IfThenElse(hn::Gt(shifted, infinity), hn::Set(u, 0x7FC00000), hn::Set(u, 0x7F800000)));
  const auto is_special = hn::Not(hn::Lt(shifted, infinity));
  return hn::BitCast(f, hn::Or(sign, hn::IfThenElse(is_special, special, finite)));
}

template <class D>
HWY_NOINLINE hn::Vec<U16<D>> to_half(D f, hn::Vec<D> v) {
  const U32<D> u;
  const auto bits = hn::BitCast(u, v);
  const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(u, 0x8000));
  const auto magnitude = hn::And(bits, hn::Set(u, 0x7FFFFFFF));
  const auto fraction = hn::ShiftRight<13>(magnitude);
  const auto nan = hn::Or(hn::Set(u, 0x7E00), hn::And(fraction, hn::Set(u, 0x3FF)));
  const auto small = hn::Sub(hn::BitCast(u, hn::Add(hn::BitCast(f, magnitude), hn::Set(f, 0.5F))),
                             hn::Set(u, 126u << 23));
  const auto odd = hn::And(fraction, hn::Set(u, 1));
  const auto normal =
      hn::ShiftRight<13>(hn::Add(hn::Sub(magnitude, hn::Set(u, (112u << 23) - 0xFFF)), odd));
  auto half = hn::IfThenElse(hn::Lt(magnitude, hn::Set(u, 113u << 23)), small, normal);
  half = hn::IfThenElse(hn::Lt(magnitude, hn::Set(u, 143u << 23)), half, hn::Set(u, 0x7C00));
  half = hn::IfThenElse(hn::Gt(magnitude, hn::Set(u, 0x7F800000)), nan, half);
  return hn::TruncateTo(U16<D>(), hn::Or(sign, half));
}
#endif

template <std::size_t N>
HWY_INLINE Pack<float, N> value_of(const Stored<Float16, N>& s) {
  Pack<float, N> p;
  ADDNORM_EACH_VECTOR p.v[k] = from_half(F32<N>(), words_of_vector(s, k));
  return p;
}
template <std::size_t N>
HWY_INLINE Stored<Float16, N> as_stored(Float16, const Pack<float, N>& p) {
  const F32<N> f;
  Stored<Float16, N> s;
  ADDNORM_UNROLL for (std::size_t k = 0; k < kWordVectors<N>; ++k) {
    if constexpr (kPaired<N>) {
      s.v[k] = hn::Combine(Word<N>(), to_half(f, p.v[2 * k + 1]), to_half(f, p.v[2 * k]));
    } else {
      s.v[k] = to_half(f, p.v[k]);
    }
  }
  return s;
}

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
