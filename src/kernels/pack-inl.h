/// 32 values at a time, in as many vectors as an instruction set needs for them: two of AVX-512,
/// eight of SSE4, NEON or WebAssembly. What is computed with a Pack has the same bits on all of
/// them. Included once for each instruction set (see highway's foreach_target.h).

#if defined(ADDNORM_KERNELS_PACK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ADDNORM_KERNELS_PACK_INL_H
#undef ADDNORM_KERNELS_PACK_INL_H
#else
#define ADDNORM_KERNELS_PACK_INL_H
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "addnorm/float16.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// The values that most loops take at a time; a short row has a pack of its own size.
inline constexpr std::size_t kPack = 32;

/// How many values of a pack are meant: all, or the first ones at the end of a row.
struct Whole {};
struct Part {
  std::size_t count;
};

enum class StoreTo {
  kCache,
  kMemory,  ///< past the caches; the address must be a multiple of 64 bytes
};

// ---------------------------------------------------------------------------------------------
// Loops over the values: for double, which is there for references and tests (and of which
// WebAssembly's highway has no vectors), and for every type where there are no vectors.

// Left as loops, for a compiler to vectorize: unrolled they take very long to compile.
#undef ADDNORM_EACH_LANE
#ifdef __clang__
#define ADDNORM_EACH_LANE _Pragma("nounroll") for (std::size_t l = 0; l < N; ++l)
#else
#define ADDNORM_EACH_LANE _Pragma("GCC unroll 1") for (std::size_t l = 0; l < N; ++l)
#endif

template <typename T, std::size_t N = kPack>
struct Pack {
  T v[N];
};

/// Whether packs of V are loops, and not vectors.
template <typename V>
concept Looped = HWY_TARGET == HWY_SCALAR || !std::is_same_v<V, float>;

/// Whether kernels have loops for what is asked most, beside the one that looks at all options as
/// it goes. Not where they would cost compile time and code that few run.
template <typename S, typename B>
inline constexpr bool kSpecialized = !Looped<Arithmetic<S>> && HWY_TARGET != HWY_SSE4 &&
                                     HWY_TARGET != HWY_WASM && !std::is_same_v<B, Float16>;

template <std::size_t N = kPack, Looped T>
HWY_INLINE Pack<T, N> set(T value) {
  Pack<T, N> p;
  ADDNORM_EACH_LANE p.v[l] = value;
  return p;
}
template <Looped T, std::size_t N>
HWY_INLINE Pack<T, N> operator+(Pack<T, N> a, const Pack<T, N>& b) {
  ADDNORM_EACH_LANE a.v[l] += b.v[l];
  return a;
}
template <Looped T, std::size_t N>
HWY_INLINE Pack<T, N> operator-(Pack<T, N> a, const Pack<T, N>& b) {
  ADDNORM_EACH_LANE a.v[l] -= b.v[l];
  return a;
}
template <Looped T, std::size_t N>
HWY_INLINE Pack<T, N> operator*(Pack<T, N> a, const Pack<T, N>& b) {
  ADDNORM_EACH_LANE a.v[l] *= b.v[l];
  return a;
}
template <Looped T, std::size_t N>
HWY_INLINE Pack<T, N> operator/(Pack<T, N> a, const Pack<T, N>& b) {
  ADDNORM_EACH_LANE a.v[l] /= b.v[l];
  return a;
}
template <Looped T, std::size_t N>
HWY_INLINE Pack<T, N> sqrt(Pack<T, N> a) {
  ADDNORM_EACH_LANE a.v[l] = std::sqrt(a.v[l]);
  return a;
}
template <Looped T, std::size_t N>
HWY_INLINE Pack<T, N> max(Pack<T, N> a, const Pack<T, N>& b) {
  ADDNORM_EACH_LANE a.v[l] = a.v[l] > b.v[l] ? a.v[l] : b.v[l];
  return a;
}
/// Bit l is set where lane l of a is below b's; not where one is NaN.
template <Looped T, std::size_t N>
HWY_INLINE unsigned below(const Pack<T, N>& a, const Pack<T, N>& b) {
  unsigned bits = 0;
  ADDNORM_EACH_LANE bits |= static_cast<unsigned>(a.v[l] < b.v[l]) << l;
  return bits;
}
template <Looped T, std::size_t N>
HWY_INLINE Pack<T, N> abs(Pack<T, N> a) {
  ADDNORM_EACH_LANE a.v[l] = a.v[l] < 0 ? -a.v[l] : a.v[l];
  return a;
}

/// The values that are meant, and 0 in place of the others.
template <typename T, std::size_t N>
HWY_INLINE Pack<T, N> keep(const Pack<T, N>& p, Whole) {
  return p;
}
template <Looped T, std::size_t N>
HWY_INLINE Pack<T, N> keep(Pack<T, N> p, Part part) {
  ADDNORM_EACH_LANE p.v[l] = l < part.count ? p.v[l] : T{0};
  return p;
}

template <std::size_t N = kPack, typename T>
requires Looped<Arithmetic<T>> HWY_INLINE Pack<Arithmetic<T>, N> load(const T* from, Whole) {
  Pack<Arithmetic<T>, N> p;
  ADDNORM_EACH_LANE p.v[l] = static_cast<Arithmetic<T>>(from[l]);
  return p;
}
template <std::size_t N = kPack, typename T>
requires Looped<Arithmetic<T>> HWY_INLINE Pack<Arithmetic<T>, N> load(const T* from, Part part) {
  Pack<Arithmetic<T>, N> p;
  ADDNORM_EACH_LANE p.v[l] = l < part.count ? static_cast<Arithmetic<T>>(from[l]) : 0;
  return p;
}
template <StoreTo kTo = StoreTo::kCache, Looped V, std::size_t N, typename T>
HWY_INLINE void store(const Pack<V, N>& p, T* to, Whole) {
  ADDNORM_EACH_LANE to[l] = static_cast<T>(p.v[l]);
}
template <StoreTo kTo = StoreTo::kCache, Looped V, std::size_t N, typename T>
HWY_INLINE void store(const Pack<V, N>& p, T* to, Part part) {
  for (std::size_t l = 0; l < part.count; ++l) to[l] = static_cast<T>(p.v[l]);
}

/// p as it will be read again from memory of type T.
template <Looped V, std::size_t N, typename T>
HWY_INLINE Pack<V, N> rounded_to(T, Pack<V, N> p) {
  if constexpr (!std::is_same_v<V, T>) {
    ADDNORM_EACH_LANE p.v[l] = static_cast<V>(static_cast<T>(p.v[l]));
  }
  return p;
}

/// Σ of a pack's values, as a tree: lanes l and l + N/2 are added, then l and l + N/4, and so on.
template <Looped V, std::size_t N>
HWY_INLINE V tree_sum(Pack<V, N> p) {
  for (std::size_t half = N / 2; half > 0; half /= 2) {
    for (std::size_t l = 0; l < half; ++l) p.v[l] += p.v[l + half];
  }
  return p.v[0];
}
/// The same for four packs, which become one.
template <Looped V, std::size_t N>
HWY_INLINE Pack<V, 4> tree_sums(const Pack<V, N> (&p)[4]) {
  return {{tree_sum(p[0]), tree_sum(p[1]), tree_sum(p[2]), tree_sum(p[3])}};
}

// ---------------------------------------------------------------------------------------------
// float: vectors

#if HWY_TARGET != HWY_SCALAR

template <std::size_t N>
using F32 = hn::CappedTag<float, N>;
template <class D>
using U32 = hn::RebindToUnsigned<D>;
template <class D>
using U16 = hn::Rebind<std::uint16_t, D>;

/// Values of one vector of a pack, and how many vectors it has.
template <std::size_t N>
inline constexpr std::size_t kVector = hn::MaxLanes(F32<N>());
template <std::size_t N>
inline constexpr std::size_t kVectors = N / kVector<N>;

template <std::size_t N>
struct Pack<float, N> {
  hn::Vec<F32<N>> v[kVectors<N>];
};

#undef ADDNORM_EACH_VECTOR
#define ADDNORM_EACH_VECTOR for (std::size_t k = 0; k < kVectors<N>; ++k)

template <std::size_t N = kPack>
HWY_INLINE Pack<float, N> set(float value) {
  Pack<float, N> p;
  ADDNORM_EACH_VECTOR p.v[k] = hn::Set(F32<N>(), value);
  return p;
}

#define ADDNORM_PACK_OPERATOR(name, function)                                         \
  template <std::size_t N>                                                            \
  HWY_INLINE Pack<float, N> name(Pack<float, N> a, const Pack<float, N>& b) {         \
    ADDNORM_EACH_VECTOR a.v[k] = hn::function(a.v[k], b.v[k]);                        \
    return a;                                                                         \
  }
ADDNORM_PACK_OPERATOR(operator+, Add)
ADDNORM_PACK_OPERATOR(operator-, Sub)
ADDNORM_PACK_OPERATOR(operator*, Mul)
ADDNORM_PACK_OPERATOR(operator/, Div)
ADDNORM_PACK_OPERATOR(max, Max)
#undef ADDNORM_PACK_OPERATOR

template <std::size_t N>
HWY_INLINE Pack<float, N> sqrt(Pack<float, N> a) {
  ADDNORM_EACH_VECTOR a.v[k] = hn::Sqrt(a.v[k]);
  return a;
}
HWY_INLINE unsigned below(const Pack<float, 4>& a, const Pack<float, 4>& b) {
  std::uint8_t bits[8] = {};
  hn::StoreMaskBits(F32<4>(), hn::Lt(a.v[0], b.v[0]), bits);
  return bits[0];
}
template <std::size_t N>
HWY_INLINE Pack<float, N> abs(Pack<float, N> a) {
  ADDNORM_EACH_VECTOR a.v[k] = hn::Abs(a.v[k]);
  return a;
}

/// How many of vector k's values are among the first `part.count` of a pack.
template <std::size_t kSize>
HWY_INLINE std::size_t part_of_vector(Part part, std::size_t k) {
  const std::size_t begin = k * kSize;
  return part.count > begin ? HWY_MIN(part.count - begin, kSize) : 0;
}

template <std::size_t N>
HWY_INLINE Pack<float, N> keep(Pack<float, N> p, Part part) {
  ADDNORM_EACH_VECTOR {
    const auto meant = hn::FirstN(F32<N>(), part_of_vector<kVector<N>>(part, k));
    p.v[k] = hn::IfThenElseZero(meant, p.v[k]);
  }
  return p;
}

// Vector k of a pack that begins at `from` or `to`. Where it is not whole, nothing behind its part
// is touched, and the values behind it are 0.

template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_vector(D d, const T* from, std::size_t k, Whole) {
  return hn::LoadU(d, from + k * hn::MaxLanes(d));
}
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_vector(D d, const T* from, std::size_t k, Part part) {
  constexpr std::size_t kSize = hn::MaxLanes(D());
  const std::size_t count = part_of_vector<kSize>(part, k);
#if HWY_TARGET == HWY_AVX3
  return hn::MaskedLoad(hn::FirstN(d, count), d, from + k * kSize);
#else
  if (count == kSize) return hn::LoadU(d, from + k * kSize);
  if (count == 0) return hn::Zero(d);
  HWY_ALIGN T buffer[kSize] = {};
  std::memcpy(buffer, from + k * kSize, count * sizeof(T));
  return hn::Load(d, buffer);
#endif
}

template <StoreTo kTo, class D, typename T = hn::TFromD<D>>
HWY_INLINE void store_vector(hn::Vec<D> v, D d, T* to, std::size_t k, Whole) {
  if constexpr (kTo == StoreTo::kMemory) {
    hn::Stream(v, d, to + k * hn::MaxLanes(d));
  } else {
    hn::StoreU(v, d, to + k * hn::MaxLanes(d));
  }
}
template <StoreTo kTo, class D, typename T = hn::TFromD<D>>
HWY_INLINE void store_vector(hn::Vec<D> v, D d, T* to, std::size_t k, Part part) {
  constexpr std::size_t kSize = hn::MaxLanes(D());
  const std::size_t count = part_of_vector<kSize>(part, k);
#if HWY_TARGET == HWY_AVX3
  hn::BlendedStore(v, hn::FirstN(d, count), d, to + k * kSize);
#else
  if (count == kSize) return hn::StoreU(v, d, to + k * kSize);
  if (count == 0) return;
  HWY_ALIGN T buffer[kSize];
  hn::Store(v, d, buffer);
  std::memcpy(to + k * kSize, buffer, count * sizeof(T));
#endif
}

#undef ADDNORM_HAVE_F16
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || (HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64)
#define ADDNORM_HAVE_F16 1
#else
#define ADDNORM_HAVE_F16 0
#endif

template <class D>
HWY_INLINE hn::Vec<U16<D>> narrow(D, hn::Vec<U32<D>> v) {
  return hn::TruncateTo(U16<D>(), v);
}

template <class D>
HWY_INLINE hn::Vec<D> from_bits(BFloat16, D f, hn::Vec<U32<D>> bits) {
  return hn::BitCast(f, hn::ShiftLeft<16>(bits));
}

template <class D>
HWY_INLINE hn::Vec<D> from_bits(Float16, D f, hn::Vec<U32<D>> bits) {
#if ADDNORM_HAVE_F16
  return hn::PromoteTo(f, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), narrow(f, bits)));
#else
  const U32<D> u;  // as Float16's own conversion
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
#endif
}

/// The bits of v in the upper half of a word, rounded to nearest even; the lower half is anything.
template <class D>
HWY_INLINE hn::Vec<U32<D>> rounded_upper(D, hn::Vec<D> v) {
  const U32<D> u;
  const auto bits = hn::BitCast(u, v);
  const auto odd = hn::TestBit(bits, hn::Set(u, 0x10000));
  const auto half = hn::IfThenElse(odd, hn::Set(u, 0x8000), hn::Set(u, 0x7FFF));
  const auto quiet = hn::Or(bits, hn::Set(u, 0x400000));
  return hn::IfThenElse(hn::RebindMask(u, hn::IsNaN(v)), quiet, hn::Add(bits, half));
}

template <class D>
HWY_INLINE hn::Vec<U32<D>> to_bits(BFloat16, D f, hn::Vec<D> v) {
  return hn::ShiftRight<16>(rounded_upper(f, v));
}

template <class D>
HWY_INLINE hn::Vec<U32<D>> to_bits(Float16, D f, hn::Vec<D> v) {
#if ADDNORM_HAVE_F16
  return hn::PromoteTo(U32<D>(),
                       hn::BitCast(U16<D>(), hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), v)));
#else
  const U32<D> u;  // as Float16's own conversion
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
  return hn::Or(sign, half);
#endif
}

template <class D, typename Count>
HWY_INLINE hn::Vec<D> load_float(D d, const float* from, std::size_t k, Count count) {
  return load_vector(d, from, k, count);
}
template <class D, typename Half, typename Count>
HWY_INLINE hn::Vec<D> load_float(D d, const Half* from, std::size_t k, Count count) {
  const auto bits = load_vector(U16<D>(), reinterpret_cast<const std::uint16_t*>(from), k, count);
  return from_bits(Half(), d, hn::PromoteTo(U32<D>(), bits));
}

template <StoreTo kTo, class D, typename Count>
HWY_INLINE void store_float(hn::Vec<D> v, D d, float* to, std::size_t k, Count count) {
  store_vector<kTo>(v, d, to, k, count);
}
template <StoreTo kTo, class D, typename Half, typename Count>
HWY_INLINE void store_float(hn::Vec<D> v, D d, Half* to, std::size_t k, Count count) {
  auto* bits = reinterpret_cast<std::uint16_t*>(to);
  store_vector<kTo>(narrow(d, to_bits(Half(), d, v)), U16<D>(), bits, k, count);
}

#undef ADDNORM_BF16_PAIRS
#if HWY_TARGET == HWY_AVX3
/// Two vectors of float32 from 32 bfloat16, and back, by one shuffle for each vector: the way over
/// 32-bit integers takes two or three steps that only half of the units can do.
#define ADDNORM_BF16_PAIRS 1
using U16x32 = hn::Full512<std::uint16_t>;
using F32x16 = hn::Full512<float>;

HWY_INLINE hn::Vec<F32x16> upper_words(hn::Vec<U16x32> bits, int first) {
  const auto pairs = hn::Iota(hn::Full512<std::uint32_t>(), 0);
  const auto words = hn::Add(hn::ShiftLeft<16>(pairs), hn::Set(hn::Full512<std::uint32_t>(),
                                                               static_cast<std::uint32_t>(first) << 16));
  return hn::Vec<F32x16>{_mm512_castsi512_ps(
      _mm512_maskz_permutexvar_epi16(0xAAAAAAAA, words.raw, bits.raw))};
}
#else
#define ADDNORM_BF16_PAIRS 0
#endif

template <std::size_t N = kPack, typename T, typename Count>
requires(!Looped<Arithmetic<T>>) HWY_INLINE Pack<float, N> load(const T* from, Count count) {
  Pack<float, N> p;
#if ADDNORM_BF16_PAIRS
  if constexpr (std::is_same_v<T, BFloat16> && N % 32 == 0) {
    for (std::size_t k = 0; k < kVectors<N>; k += 2) {
      const auto* words = reinterpret_cast<const std::uint16_t*>(from);
      const auto bits = load_vector(U16x32(), words, k / 2, count);
      p.v[k] = upper_words(bits, 0);
      p.v[k + 1] = upper_words(bits, 16);
    }
    return p;
  }
#endif
  ADDNORM_EACH_VECTOR p.v[k] = load_float(F32<N>(), from, k, count);
  return p;
}

template <StoreTo kTo = StoreTo::kCache, std::size_t N, typename T, typename Count>
HWY_INLINE void store(const Pack<float, N>& p, T* to, Count count) {
#if ADDNORM_BF16_PAIRS
  if constexpr (std::is_same_v<T, BFloat16> && N % 32 == 0) {
    for (std::size_t k = 0; k < kVectors<N>; k += 2) {
      const auto low = hn::BitCast(U16x32(), rounded_upper(F32x16(), p.v[k]));
      const auto high = hn::BitCast(U16x32(), rounded_upper(F32x16(), p.v[k + 1]));
      store_vector<kTo>(hn::ConcatOdd(U16x32(), high, low), U16x32(),
                        reinterpret_cast<std::uint16_t*>(to), k / 2, count);
    }
    return;
  }
#endif
  ADDNORM_EACH_VECTOR store_float<kTo>(p.v[k], F32<N>(), to, k, count);
}

/// p as it will be read again from memory of type T.
template <std::size_t N>
HWY_INLINE Pack<float, N> rounded_to(float, const Pack<float, N>& p) {
  return p;
}
template <std::size_t N>
HWY_INLINE Pack<float, N> rounded_to(BFloat16, Pack<float, N> p) {
  const U32<F32<N>> u;
  ADDNORM_EACH_VECTOR {
    const auto bits = rounded_upper(F32<N>(), p.v[k]);
    p.v[k] = hn::BitCast(F32<N>(), hn::And(bits, hn::Set(u, 0xFFFF0000)));
  }
  return p;
}
template <std::size_t N>
HWY_INLINE Pack<float, N> rounded_to(Float16 half, Pack<float, N> p) {
  const F32<N> d;
  ADDNORM_EACH_VECTOR p.v[k] = from_bits(half, d, to_bits(half, d, p.v[k]));
  return p;
}

using F32x4 = hn::Full128<float>;

template <class D>
HWY_INLINE hn::Vec<F32x4> fold(D, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    return v;
  } else {
    const hn::Half<D> half;
    return fold(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}
/// Values l, l + 4, l + 8, … of a pack, added as a tree, for l = 0 … 3.
template <std::size_t N>
HWY_INLINE hn::Vec<F32x4> fold(Pack<float, N> p) {
  for (std::size_t half = kVectors<N> / 2; half > 0; half /= 2) {
    for (std::size_t k = 0; k < half; ++k) p.v[k] = hn::Add(p.v[k], p.v[k + half]);
  }
  return fold(F32<N>(), p.v[0]);
}

template <std::size_t N>
HWY_INLINE float tree_sum(const Pack<float, N>& p) {
  const F32x4 d;
  HWY_ALIGN float l[4];
  hn::Store(fold(p), d, l);
  return (l[0] + l[2]) + (l[1] + l[3]);
}
template <std::size_t N>
HWY_INLINE Pack<float, 4> tree_sums(const Pack<float, N> (&p)[4]) {
  const F32x4 d;
  const auto halves = [d](auto a, auto b) HWY_ATTR {
    return hn::Add(hn::ConcatLowerLower(d, b, a), hn::ConcatUpperUpper(d, b, a));
  };
  const auto first = halves(fold(p[0]), fold(p[1]));
  const auto last = halves(fold(p[2]), fold(p[3]));
  return {{hn::Add(hn::ConcatEven(d, last, first), hn::ConcatOdd(d, last, first))}};
}

#endif  // HWY_TARGET != HWY_SCALAR

// ---------------------------------------------------------------------------------------------

#undef ADDNORM_UNROLL
/// For loops whose packs must stay in registers.
#ifdef __clang__
#define ADDNORM_UNROLL _Pragma("unroll")
#else
#define ADDNORM_UNROLL _Pragma("GCC unroll 8")
#endif

#undef ADDNORM_BODY
/// For the bodies of loops over packs: a lambda is not of the instruction set around it by itself.
#define ADDNORM_BODY __attribute__((always_inline)) HWY_ATTR

/// Calls body(i, count) for the packs of 0 … n − 1 that begin at i.
template <typename Body>
HWY_INLINE void for_each_pack(std::size_t n, const Body& body) {
  std::size_t i = 0;
  for (; i + kPack <= n; i += kPack) body(i, Whole());
  if (i < n) body(i, Part{n - i});
}

}  // namespace HWY_NAMESPACE
}  // namespace addnorm
HWY_AFTER_NAMESPACE();

#endif  // the guard for each instruction set
