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

/// How many values of a pack are meant: all, or the first ones.
struct Whole {};
struct Part {
  std::size_t count;
};

enum class StoreTo {
  kCache,
  kMemory,  ///< past the caches; the address must be a multiple of 64 bytes
};

#undef ADDNORM_UNROLL
#undef ADDNORM_NO_UNROLL
/// For loops whose packs must stay in registers, and for those where too few are left for that.
#ifdef __clang__
#define ADDNORM_UNROLL _Pragma("unroll")
#define ADDNORM_NO_UNROLL _Pragma("nounroll")
#else
#define ADDNORM_UNROLL _Pragma("GCC unroll 8")
#define ADDNORM_NO_UNROLL _Pragma("GCC unroll 1")
#endif

// ---------------------------------------------------------------------------------------------
// Loops over the values: for double, which is there for references and tests (and of which
// WebAssembly's highway has no vectors), and for every type where there are no vectors. They are
// called, not inlined: few wait for them, and a kernel of calls compiles in a tenth of the time.

// Left as loops, for a compiler to vectorize: unrolled they take very long to compile.
#undef ADDNORM_EACH_LANE
#define ADDNORM_EACH_LANE ADDNORM_NO_UNROLL for (std::size_t l = 0; l < N; ++l)

template <typename T, std::size_t N = kPack>
struct Pack {
  T v[N];
};

/// Whether there are masks for vectors of all types; where there are, registers hold twice or four
/// times as much too.
inline constexpr bool kMasks = HWY_TARGET == HWY_AVX3;

/// Whether packs of V are loops, and not vectors.
template <typename V>
concept Looped = HWY_TARGET == HWY_SCALAR || !std::is_same_v<V, float>;

/// Whether kernels have loops for what is asked most, beside the one that looks at all options as
/// it goes. Not where they would cost compile time and code that few run.
template <typename S, typename B>
inline constexpr bool kSpecialized = !Looped<Arithmetic<S>> && HWY_TARGET != HWY_SSE4 &&
                                     HWY_TARGET != HWY_WASM && !std::is_same_v<B, Float16>;

template <std::size_t N = kPack, Looped T>
HWY_NOINLINE Pack<T, N> set(T value) {
  Pack<T, N> p;
  ADDNORM_EACH_LANE p.v[l] = value;
  return p;
}
template <Looped T, std::size_t N>
HWY_NOINLINE Pack<T, N> operator+(const Pack<T, N>& a, const Pack<T, N>& b) {
  Pack<T, N> p;
  ADDNORM_EACH_LANE p.v[l] = a.v[l] + b.v[l];
  return p;
}
template <Looped T, std::size_t N>
HWY_NOINLINE Pack<T, N> operator-(const Pack<T, N>& a, const Pack<T, N>& b) {
  Pack<T, N> p;
  ADDNORM_EACH_LANE p.v[l] = a.v[l] - b.v[l];
  return p;
}
template <Looped T, std::size_t N>
HWY_NOINLINE Pack<T, N> operator*(const Pack<T, N>& a, const Pack<T, N>& b) {
  Pack<T, N> p;
  ADDNORM_EACH_LANE p.v[l] = a.v[l] * b.v[l];
  return p;
}
/// A pack of one number, for those that stay the same in a loop: a compiler may keep a vector of it
/// for each of a pack's.
template <typename T, std::size_t N = kPack>
struct Same {
  T v;

  HWY_INLINE explicit Same(T value) : v(value) {}
};
template <Looped T, std::size_t N>
HWY_INLINE Pack<T, N> operator+(const Pack<T, N>& a, Same<T, N> b) {
  return a + set<N>(b.v);
}
template <Looped T, std::size_t N>
HWY_INLINE Pack<T, N> operator-(const Pack<T, N>& a, Same<T, N> b) {
  return a - set<N>(b.v);
}
template <Looped T, std::size_t N>
HWY_INLINE Pack<T, N> operator*(const Pack<T, N>& a, Same<T, N> b) {
  return a * set<N>(b.v);
}
template <Looped T, std::size_t N>
HWY_NOINLINE Pack<T, N> operator/(const Pack<T, N>& a, const Pack<T, N>& b) {
  Pack<T, N> p;
  ADDNORM_EACH_LANE p.v[l] = a.v[l] / b.v[l];
  return p;
}
template <Looped T, std::size_t N>
HWY_NOINLINE Pack<T, N> sqrt(const Pack<T, N>& a) {
  Pack<T, N> p;
  ADDNORM_EACH_LANE p.v[l] = std::sqrt(a.v[l]);
  return p;
}
template <Looped T, std::size_t N>
HWY_NOINLINE Pack<T, N> max(const Pack<T, N>& a, const Pack<T, N>& b) {
  Pack<T, N> p;
  ADDNORM_EACH_LANE p.v[l] = a.v[l] > b.v[l] ? a.v[l] : b.v[l];
  return p;
}
/// Bit l is set where lane l of a is below b's; not where one is NaN.
template <Looped T, std::size_t N>
HWY_NOINLINE unsigned below(const Pack<T, N>& a, const Pack<T, N>& b) {
  unsigned bits = 0;
  ADDNORM_EACH_LANE bits |= static_cast<unsigned>(a.v[l] < b.v[l]) << l;
  return bits;
}
template <Looped T, std::size_t N>
HWY_NOINLINE Pack<T, N> abs(const Pack<T, N>& a) {
  Pack<T, N> p;
  ADDNORM_EACH_LANE p.v[l] = a.v[l] < 0 ? -a.v[l] : a.v[l];
  return p;
}
/// `yes` where a is below b, elsewhere `no`, and where one of them is NaN.
template <Looped T, std::size_t N>
HWY_NOINLINE Pack<T, N> if_below(const Pack<T, N>& a, const Pack<T, N>& b, const Pack<T, N>& yes,
                                 Pack<T, N> no) {
  ADDNORM_EACH_LANE no.v[l] = a.v[l] < b.v[l] ? yes.v[l] : no.v[l];
  return no;
}
/// The largest value; any value where one is NaN.
template <Looped T, std::size_t N>
HWY_NOINLINE T largest(const Pack<T, N>& p) {
  T value = p.v[0];
  ADDNORM_EACH_LANE value = value > p.v[l] ? value : p.v[l];
  return value;
}

/// The values that are meant, and 0 in place of the others.
template <typename T, std::size_t N>
HWY_INLINE Pack<T, N> keep(const Pack<T, N>& p, Whole) {
  return p;
}
template <Looped T, std::size_t N>
HWY_NOINLINE Pack<T, N> keep(Pack<T, N> p, Part part) {
  ADDNORM_EACH_LANE p.v[l] = l < part.count ? p.v[l] : T{0};
  return p;
}
/// The same with `other` in their place.
template <typename T, std::size_t N>
HWY_INLINE Pack<T, N> keep(const Pack<T, N>& p, Whole, T) {
  return p;
}
template <Looped T, std::size_t N>
HWY_NOINLINE Pack<T, N> keep(Pack<T, N> p, Part part, T other) {
  ADDNORM_EACH_LANE p.v[l] = l < part.count ? p.v[l] : other;
  return p;
}

template <std::size_t N = kPack, typename T>
requires Looped<Arithmetic<T>> HWY_NOINLINE Pack<Arithmetic<T>, N> load(const T* from, Whole) {
  Pack<Arithmetic<T>, N> p;
  ADDNORM_EACH_LANE p.v[l] = static_cast<Arithmetic<T>>(from[l]);
  return p;
}
template <std::size_t N = kPack, typename T>
requires Looped<Arithmetic<T>> HWY_NOINLINE Pack<Arithmetic<T>, N> load(const T* from, Part part) {
  Pack<Arithmetic<T>, N> p;
  ADDNORM_EACH_LANE p.v[l] = l < part.count ? static_cast<Arithmetic<T>>(from[l]) : 0;
  return p;
}
/// A pack as memory of type T holds it: rounded.
template <typename T, std::size_t N = kPack>
struct Stored {
  T v[N];
};
template <typename T, std::size_t N>
requires Looped<Arithmetic<T>> HWY_NOINLINE Stored<T, N> as_stored(
    T, const Pack<Arithmetic<T>, N>& p) {
  Stored<T, N> stored;
  ADDNORM_EACH_LANE stored.v[l] = static_cast<T>(p.v[l]);
  return stored;
}
template <typename T, std::size_t N>
requires Looped<Arithmetic<T>> HWY_NOINLINE Pack<Arithmetic<T>, N> value_of(const Stored<T, N>& s) {
  return load<N>(s.v, Whole());
}
template <StoreTo kTo = StoreTo::kCache, typename T, std::size_t N>
requires Looped<Arithmetic<T>> HWY_NOINLINE void store(const Stored<T, N>& s, T* to, Whole) {
  ADDNORM_EACH_LANE to[l] = s.v[l];
}
template <StoreTo kTo = StoreTo::kCache, typename T, std::size_t N>
requires Looped<Arithmetic<T>> HWY_NOINLINE void store(const Stored<T, N>& s, T* to, Part part) {
  for (std::size_t l = 0; l < part.count; ++l) to[l] = s.v[l];
}

template <Looped V, std::size_t N>
HWY_NOINLINE Pack<V, 4> first_four(const Pack<V, N>& p) {
  return {{p.v[0], p.v[1], p.v[2], p.v[3]}};
}
/// A pack's values, added as a tree until four are left: lanes l and l + N/2 are added, then l and
/// l + N/4, and so on.
template <Looped V, std::size_t N>
HWY_NOINLINE Pack<V, 4> fold(Pack<V, N> p) {
  for (std::size_t half = N / 2; half >= 4; half /= 2) {
    for (std::size_t l = 0; l < half; ++l) p.v[l] += p.v[l + half];
  }
  return first_four(p);
}
/// The same down to one.
template <Looped V, std::size_t N>
HWY_NOINLINE V tree_sum(const Pack<V, N>& p) {
  const Pack<V, 4> l = fold(p);
  return (l.v[0] + l.v[2]) + (l.v[1] + l.v[3]);
}
/// The same for four packs, which become one.
template <Looped V, std::size_t N>
HWY_NOINLINE Pack<V, 4> tree_sums(const Pack<V, N> (&p)[4]) {
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
#define ADDNORM_EACH_VECTOR ADDNORM_UNROLL for (std::size_t k = 0; k < kVectors<N>; ++k)

template <std::size_t N = kPack>
HWY_INLINE Pack<float, N> set(float value) {
  Pack<float, N> p;
  ADDNORM_EACH_VECTOR p.v[k] = hn::Set(F32<N>(), value);
  return p;
}

template <std::size_t N>
struct Same<float, N> {
  hn::Vec<F32<N>> v;

  HWY_INLINE explicit Same(float value) : v(hn::Set(F32<N>(), value)) {}
};

#define ADDNORM_PACK_OPERATOR(name, function)                                 \
  template <std::size_t N>                                                    \
  HWY_INLINE Pack<float, N> name(Pack<float, N> a, const Pack<float, N>& b) { \
    ADDNORM_EACH_VECTOR a.v[k] = hn::function(a.v[k], b.v[k]);                \
    return a;                                                                 \
  }
ADDNORM_PACK_OPERATOR(operator+, Add)
ADDNORM_PACK_OPERATOR(operator-, Sub)
ADDNORM_PACK_OPERATOR(operator*, Mul)
ADDNORM_PACK_OPERATOR(operator/, Div)
ADDNORM_PACK_OPERATOR(max, Max)
#undef ADDNORM_PACK_OPERATOR
#define ADDNORM_SAME_OPERATOR(name, function)                                 \
  template <std::size_t N>                                                    \
  HWY_INLINE Pack<float, N> name(Pack<float, N> a, const Same<float, N>& b) { \
    ADDNORM_EACH_VECTOR a.v[k] = hn::function(a.v[k], b.v);                   \
    return a;                                                                 \
  }
ADDNORM_SAME_OPERATOR(operator+, Add)
ADDNORM_SAME_OPERATOR(operator-, Sub)
ADDNORM_SAME_OPERATOR(operator*, Mul)
#undef ADDNORM_SAME_OPERATOR

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
template <std::size_t N>
HWY_INLINE Pack<float, N> if_below(const Pack<float, N>& a, const Pack<float, N>& b,
                                   const Pack<float, N>& yes, Pack<float, N> no) {
  ADDNORM_EACH_VECTOR no.v[k] = hn::IfThenElse(hn::Lt(a.v[k], b.v[k]), yes.v[k], no.v[k]);
  return no;
}
template <std::size_t N>
HWY_INLINE float largest(const Pack<float, N>& p) {
  auto value = p.v[0];
  ADDNORM_EACH_VECTOR value = hn::Max(value, p.v[k]);
  return hn::GetLane(hn::MaxOfLanes(F32<N>(), value));
}

/// Which of vector k's values are among the first `part.count` of a pack.
template <class D>
HWY_INLINE hn::Mask<D> part_of_vector(D d, Part part, std::size_t k) {
#if HWY_TARGET == HWY_AVX3
  // One number for all vectors: hn::FirstN() of what is left for each has branches.
  static_cast<void>(d);
  constexpr std::size_t kSize = hn::MaxLanes(D());
  constexpr std::uint64_t kLanes =
      kSize == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << kSize) - 1;
  const std::uint64_t bits = _bzhi_u64(~std::uint64_t{0}, part.count) >> (k * kSize) & kLanes;
  return {static_cast<decltype(hn::Mask<D>::raw)>(bits)};
#else
  const hn::RebindToSigned<D> i;
  using Index = hn::TFromD<decltype(i)>;
  const auto first = hn::Iota(i, static_cast<Index>(k * hn::MaxLanes(D())));
  return hn::RebindMask(d, hn::Lt(first, hn::Set(i, static_cast<Index>(part.count))));
#endif
}

template <std::size_t N>
HWY_INLINE Pack<float, N> keep(Pack<float, N> p, Part part) {
  ADDNORM_EACH_VECTOR {
    p.v[k] = hn::IfThenElseZero(part_of_vector(F32<N>(), part, k), p.v[k]);
  }
  return p;
}
template <std::size_t N>
HWY_INLINE Pack<float, N> keep(Pack<float, N> p, Part part, float other) {
  const auto others = hn::Set(F32<N>(), other);
  ADDNORM_EACH_VECTOR {
    p.v[k] = hn::IfThenElse(part_of_vector(F32<N>(), part, k), p.v[k], others);
  }
  return p;
}

// Vector k of a pack that begins at `from` or `to`.

template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_vector(D d, const T* from, std::size_t k, Whole) {
  return hn::LoadU(d, from + k * hn::MaxLanes(d));
}
template <StoreTo kTo, class D, typename T = hn::TFromD<D>>
HWY_INLINE void store_vector(hn::Vec<D> v, D d, T* to, std::size_t k, Whole) {
  if constexpr (kTo == StoreTo::kMemory) {
    hn::Stream(v, d, to + k * hn::MaxLanes(d));
  } else {
    hn::StoreU(v, d, to + k * hn::MaxLanes(d));
  }
}

// Of a pack that is not whole nothing behind its part is touched, and the values behind it are 0:
// by masks, or by way of a buffer, in functions of their own: they would be most of a kernel's
// code.

template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_vector(D d, const T* from, std::size_t k, Part part) {
  return hn::MaskedLoad(part_of_vector(d, part, k), d, from + k * hn::MaxLanes(d));
}
template <StoreTo kTo, class D, typename T = hn::TFromD<D>>
HWY_INLINE void store_vector(hn::Vec<D> v, D d, T* to, std::size_t k, Part part) {
  if constexpr (kTo == StoreTo::kMemory) {
    // There are no masks past the caches, and a store of no value still brings its line in.
    if ((k + 1) * hn::MaxLanes(d) <= part.count) return store_vector<kTo>(v, d, to, k, Whole());
    if (k * hn::MaxLanes(d) >= part.count) return;
  }
  hn::BlendedStore(v, part_of_vector(d, part, k), d, to + k * hn::MaxLanes(d));
}

// Memory of 16-bit types: as many words as a pack has values. One vector of words stands for one
// vector of float32, or for two.

template <std::size_t N>
using Word = hn::CappedTag<std::uint16_t, N>;
template <std::size_t N>
inline constexpr std::size_t kWordVectors = N / hn::MaxLanes(Word<N>());
template <std::size_t N>
inline constexpr bool kPaired = kVectors<N> == 2 * kWordVectors<N>;

/// The vectors that memory of type T is read and written in: of float32, or of words.
template <typename T, std::size_t N>
using Storage = std::conditional_t<std::is_same_v<T, float>, F32<N>, Word<N>>;
template <typename T, std::size_t N>
inline constexpr std::size_t kStoredVectors = N / hn::MaxLanes(Storage<T, N>());

template <std::size_t N>
struct Stored<float, N> {
  hn::Vec<Storage<float, N>> v[kVectors<N>];
};
template <std::size_t N>
struct Stored<BFloat16, N> {
  hn::Vec<Storage<BFloat16, N>> v[kWordVectors<N>];
};
template <std::size_t N>
struct Stored<Float16, N> {
  hn::Vec<Storage<Float16, N>> v[kWordVectors<N>];
};

template <typename T, std::size_t N, typename Count>
HWY_INLINE Stored<T, N> load_stored(const T* from, Count count) {
  using D = Storage<T, N>;
  Stored<T, N> s;
  ADDNORM_UNROLL for (std::size_t k = 0; k < kStoredVectors<T, N>; ++k) {
    s.v[k] = load_vector(D(), reinterpret_cast<const hn::TFromD<D>*>(from), k, count);
  }
  return s;
}
template <StoreTo kTo, typename T, std::size_t N, typename Count>
HWY_INLINE void store_vectors(const Stored<T, N>& s, T* to, Count count) {
  using D = Storage<T, N>;
  ADDNORM_UNROLL for (std::size_t k = 0; k < kStoredVectors<T, N>; ++k) {
    store_vector<kTo>(s.v[k], D(), reinterpret_cast<hn::TFromD<D>*>(to), k, count);
  }
}
/// The first values of a vector.
template <class D, typename T = hn::TFromD<D>>
HWY_NOINLINE void store_some(hn::Vec<D> v, T* to, std::size_t count) {
  HWY_ALIGN T buffer[hn::MaxLanes(D())];
  hn::Store(v, D(), buffer);
  std::memcpy(to, buffer, count * sizeof(T));
}
template <typename T, std::size_t N>
HWY_INLINE void store_part(const Stored<T, N>& s, T* to, std::size_t count) {
  using D = Storage<T, N>;
  constexpr std::size_t kSize = hn::MaxLanes(D());
  auto* place = reinterpret_cast<hn::TFromD<D>*>(to);
  for (std::size_t k = 0; k < N / kSize; ++k, place += kSize, count -= kSize) {
    if (count < kSize) {
      if (count > 0) store_some<D>(s.v[k], place, count);
      return;
    }
    hn::StoreU(s.v[k], D(), place);
  }
}
template <StoreTo kTo = StoreTo::kCache, typename T, std::size_t N>
HWY_INLINE void store(const Stored<T, N>& s, T* to, Whole) {
  store_vectors<kTo>(s, to, Whole());
}
template <StoreTo kTo = StoreTo::kCache, typename T, std::size_t N>
HWY_INLINE void store(const Stored<T, N>& s, T* to, Part part) {
  if constexpr (kMasks) {
    store_vectors<kTo>(s, to, part);
  } else {
    store_part(s, to, part.count);
  }
}

template <std::size_t N>
HWY_INLINE Stored<float, N> as_stored(float, const Pack<float, N>& p) {
  Stored<float, N> s;
  ADDNORM_EACH_VECTOR s.v[k] = p.v[k];
  return s;
}
template <std::size_t N>
HWY_INLINE Pack<float, N> value_of(const Stored<float, N>& s) {
  Pack<float, N> p;
  ADDNORM_EACH_VECTOR p.v[k] = s.v[k];
  return p;
}

// bfloat16: the upper halves of float32.

/// The words that belong to vector k of the float32, one in each lane.
template <std::size_t N, typename T>
HWY_INLINE hn::Vec<U32<F32<N>>> words_of_vector(const Stored<T, N>& s, std::size_t k) {
  const U32<F32<N>> u;
  if constexpr (kPaired<N>) {
    const hn::Half<Word<N>> half;
    const auto words = s.v[k / 2];
    return hn::PromoteTo(u, k % 2 == 0 ? hn::LowerHalf(half, words) : hn::UpperHalf(half, words));
  } else {
    return hn::PromoteTo(u, s.v[k]);
  }
}

#if HWY_TARGET == HWY_AVX3
// Constants in instructions of our own stay in registers. Those that a compiler knows it makes anew
// in each turn of a loop, which takes a Zen 5 two cycles for a mask.
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
    p.v[k] = hn::BitCast(F32<N>(), hn::ShiftLeft<16>(words_of_vector(s, k)));
  }
  return p;
}

/// The upper halves, plus 1 where the lower ones are more than half of it, or half of it and the
/// upper odd; an arithmetic's NaN, whose highest bit of fraction is set, stays as it is.
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
/// AVX512_BF16, which Highway's target does not take for granted.
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

// volatile: else a compiler may move the instruction to where it is not known to be there.
// By value: an array that is written this way goes through memory.
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

/// The words that one instruction for each vector of them rounds to, where there is one. It takes
/// subnormal numbers for 0.
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
/// Whether that took one of the values that are meant for 0 that is not. It cannot have where each
/// of these words has one of the bits `exponent`, which is asked first.
template <std::size_t N, typename Count>
HWY_INLINE bool lost_subnormal(const Pack<float, N>& p, const Stored<BFloat16, N>& words,
                               std::uint16_t exponent, Count count) {
  const Word<N> d;
  const auto bits = constant_words(d, exponent);
  const auto is_normal = [&](std::size_t k) HWY_ATTR {
    const auto found = hn::TestBit(words.v[k], bits);
    if constexpr (std::is_same_v<Count, Whole>) {
      return found;
    } else {
      return hn::Or(found, hn::Not(part_of_vector(d, count, k)));
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
template <std::size_t N, typename Count = Whole>
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
/// The same of sums of `x` and another bfloat16. They are 0 too often for a branch to be foreseen,
/// but subnormal only where x is below 2^−111: else both are multiples of 2^−119.
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
HWY_INLINE hn::Vec<D> from_bits(Float16, D f, hn::Vec<U32<D>> bits) {
  return hn::PromoteTo(
      f, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), hn::TruncateTo(U16<D>(), bits)));
}
template <class D>
HWY_INLINE hn::Vec<U32<D>> to_bits(Float16, D, hn::Vec<D> v) {
  return hn::PromoteTo(U32<D>(),
                       hn::BitCast(U16<D>(), hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), v)));
}
#else
// As Float16's own conversions.
template <class D>
HWY_NOINLINE hn::Vec<D> from_bits(Float16, D f, hn::Vec<U32<D>> bits) {
  const U32<D> u;
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
HWY_NOINLINE hn::Vec<U32<D>> to_bits(Float16, D f, hn::Vec<D> v) {
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
  return hn::Or(sign, half);
}
#endif

template <std::size_t N>
HWY_INLINE Pack<float, N> value_of(const Stored<Float16, N>& s) {
  Pack<float, N> p;
  ADDNORM_EACH_VECTOR p.v[k] = from_bits(Float16(), F32<N>(), words_of_vector(s, k));
  return p;
}
template <std::size_t N>
HWY_INLINE Stored<Float16, N> as_stored(Float16 half, const Pack<float, N>& p) {
  const F32<N> f;
  const U16<F32<N>> d;
  Stored<Float16, N> s;
  ADDNORM_UNROLL for (std::size_t k = 0; k < kWordVectors<N>; ++k) {
    if constexpr (kPaired<N>) {
      s.v[k] = hn::Combine(Word<N>(), hn::TruncateTo(d, to_bits(half, f, p.v[2 * k + 1])),
                           hn::TruncateTo(d, to_bits(half, f, p.v[2 * k])));
    } else {
      s.v[k] = hn::TruncateTo(d, to_bits(half, f, p.v[k]));
    }
  }
  return s;
}

template <std::size_t N, typename T>
HWY_NOINLINE Pack<float, N> load_part(const T* from, std::size_t count) {
  HWY_ALIGN std::byte buffer[N * sizeof(T)] = {};
  std::memcpy(buffer, from, count * sizeof(T));
  return value_of(load_stored<T, N>(reinterpret_cast<const T*>(buffer), Whole()));
}
template <std::size_t N = kPack, typename T>
requires(!Looped<Arithmetic<T>>) HWY_INLINE Pack<float, N> load(const T* from, Whole) {
  return value_of(load_stored<T, N>(from, Whole()));
}
template <std::size_t N = kPack, typename T>
requires(!Looped<Arithmetic<T>>) HWY_INLINE Pack<float, N> load(const T* from, Part part) {
  // AVX2 has masked loads of 4-byte values only.
  if constexpr (kMasks || (HWY_TARGET == HWY_AVX2 && sizeof(T) == 4)) {
    return value_of(load_stored<T, N>(from, part));
  } else {
    return load_part<N>(from, part.count);
  }
}

using F32x4 = hn::Full128<float>;

template <class D>
HWY_INLINE hn::Vec<F32x4> first_four_of(D, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    return v;
  } else {
    const hn::Half<D> half;
    return first_four_of(half, hn::LowerHalf(half, v));
  }
}
template <std::size_t N>
HWY_INLINE Pack<float, 4> first_four(const Pack<float, N>& p) {
  return {{first_four_of(F32<N>(), p.v[0])}};
}

template <class D>
HWY_INLINE hn::Vec<F32x4> fold_vector(D, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    return v;
  } else {
    const hn::Half<D> half;
    return fold_vector(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}
template <std::size_t N>
HWY_INLINE Pack<float, 4> fold(Pack<float, N> p) {
  for (std::size_t half = kVectors<N> / 2; half > 0; half /= 2) {
    for (std::size_t k = 0; k < half; ++k) p.v[k] = hn::Add(p.v[k], p.v[k + half]);
  }
  return {{fold_vector(F32<N>(), p.v[0])}};
}

template <std::size_t N>
HWY_INLINE float tree_sum(const Pack<float, N>& p) {
  const F32x4 d;
  HWY_ALIGN float l[4];
  hn::Store(fold(p).v[0], d, l);
  return (l[0] + l[2]) + (l[1] + l[3]);
}
template <std::size_t N>
HWY_INLINE Pack<float, 4> tree_sums(const Pack<float, N> (&p)[4]) {
  const F32x4 d;
  const auto halves = [d](auto a, auto b) HWY_ATTR {
    return hn::Add(hn::ConcatLowerLower(d, b, a), hn::ConcatUpperUpper(d, b, a));
  };
  const auto first = halves(fold(p[0]).v[0], fold(p[1]).v[0]);
  const auto last = halves(fold(p[2]).v[0], fold(p[3]).v[0]);
  return {{hn::Add(hn::ConcatEven(d, last, first), hn::ConcatOdd(d, last, first))}};
}

/// Writes value k of each pack, one beside the other, to + k·stride.
HWY_INLINE void store_columns(const Pack<float, 4>& a, const Pack<float, 4>& b, float* to,
                              std::size_t stride) {
  const F32x4 d;
  const hn::Half<F32x4> half;
  const auto low = hn::InterleaveLower(d, a.v[0], b.v[0]);
  const auto high = hn::InterleaveUpper(d, a.v[0], b.v[0]);
  hn::StoreU(hn::LowerHalf(half, low), half, to);
  hn::StoreU(hn::UpperHalf(half, low), half, to + stride);
  hn::StoreU(hn::LowerHalf(half, high), half, to + 2 * stride);
  hn::StoreU(hn::UpperHalf(half, high), half, to + 3 * stride);
}
HWY_INLINE void store_columns(const Pack<float, 4>& a, const Pack<float, 4>& b,
                              const Pack<float, 4>& c, const Pack<float, 4>& e, float* to,
                              std::size_t stride) {
  const F32x4 d;
  const auto ac_low = hn::InterleaveLower(d, a.v[0], c.v[0]);
  const auto ac_high = hn::InterleaveUpper(d, a.v[0], c.v[0]);
  const auto be_low = hn::InterleaveLower(d, b.v[0], e.v[0]);
  const auto be_high = hn::InterleaveUpper(d, b.v[0], e.v[0]);
  hn::StoreU(hn::InterleaveLower(d, ac_low, be_low), d, to);
  hn::StoreU(hn::InterleaveUpper(d, ac_low, be_low), d, to + stride);
  hn::StoreU(hn::InterleaveLower(d, ac_high, be_high), d, to + 2 * stride);
  hn::StoreU(hn::InterleaveUpper(d, ac_high, be_high), d, to + 3 * stride);
}

#endif  // HWY_TARGET != HWY_SCALAR

// ---------------------------------------------------------------------------------------------

template <StoreTo kTo = StoreTo::kCache, typename V, std::size_t N, typename T, typename Count>
HWY_INLINE void store(const Pack<V, N>& p, T* to, Count count) {
  if constexpr (std::is_same_v<T, BFloat16> && !Looped<V>) {
    store<kTo>(as_stored(T(), p, count), to, count);
  } else {
    store<kTo>(as_stored(T(), p), to, count);
  }
}

#undef ADDNORM_BODY
/// For the bodies of loops over packs: a lambda is not of the instruction set around it by itself.
#define ADDNORM_BODY __attribute__((always_inline)) HWY_ATTR

/// What goes through many operations one by one does so in packs of two vectors: longer ones would
/// not stay in registers.
template <typename V>
inline constexpr std::size_t kSmallPack = 4;
#if HWY_TARGET != HWY_SCALAR
template <>
inline constexpr std::size_t kSmallPack<float> = 2 * kVector<kPack>;
#endif

/// Calls body(i, count) for the packs of 0 … n − 1 that begin at i.
template <std::size_t N = kPack, typename Body>
HWY_INLINE void for_each_pack(std::size_t n, const Body& body) {
  std::size_t i = 0;
  for (; i + N <= n; i += N) body(i, Whole());
  if (i < n) body(i, Part{n - i});
}

/// What a loop over S and B takes in one step: as few values as its instructions take at a time, so
/// that all it needs stays in registers. Two vectors of float32 round to one of 16 bits; where
/// there are many registers two of those are rounded together.
template <typename S, typename B>
inline constexpr std::size_t kStep = kPack;
#if HWY_TARGET != HWY_SCALAR
template <>
inline constexpr std::size_t kStep<float, float> = kVector<kPack>;
template <>
inline constexpr std::size_t kStep<BFloat16, BFloat16> = (kMasks ? 4 : 2) * kVector<kPack>;
template <>
inline constexpr std::size_t kStep<float, BFloat16> = kStep<BFloat16, BFloat16>;
#endif

/// Steps of N values in a pack, one where they are longer, and the lanes that each is summed in.
template <std::size_t N>
inline constexpr std::size_t kSteps = N < kPack ? kPack / N : 1;
template <typename V, std::size_t N>
using StepLanes = Pack<V, HWY_MIN(N, kPack)>;

/// Adds the values of a step to its lanes, pack by pack.
template <typename V, std::size_t M, std::size_t N>
HWY_INLINE void add_lanes(Pack<V, M>& lanes, const Pack<V, N>& p) {
  constexpr std::size_t kSize = std::extent_v<decltype(lanes.v)>;
  ADDNORM_UNROLL for (std::size_t part = 0; part < N / M; ++part) {
    Pack<V, M> values;
    ADDNORM_UNROLL for (std::size_t i = 0; i < kSize; ++i) values.v[i] = p.v[part * kSize + i];
    lanes = lanes + values;
  }
}

/// fold() of a pack that stands in parts, each a member of one of `lanes`.
template <typename V, std::size_t N, typename Lanes>
HWY_INLINE Pack<V, 4> fold(const Lanes (&lanes)[kSteps<N>], Pack<V, N> Lanes::*part) {
  Pack<V> p;
  constexpr std::size_t kSize = std::extent_v<decltype(Pack<V, N>::v)>;
  for (std::size_t i = 0; i < std::extent_v<decltype(p.v)>; ++i) {
    p.v[i] = (lanes[i / kSize].*part).v[i % kSize];
  }
  return fold(p);
}

/// Lanes to which nothing has been added.
template <std::size_t N, typename Lanes>
HWY_INLINE void clear(Lanes (&lanes)[kSteps<N>]) {
  ADDNORM_UNROLL for (std::size_t k = 0; k < kSteps<N>; ++k) lanes[k] = Lanes::zero();
}

/// Calls body(i, k, count, lanes[k]) for the steps of N values of 0 … n − 1 that begin at i; k is
/// the place of a step in its pack, and lanes[k] what is summed in it.
template <std::size_t N, typename Lanes, typename Body>
HWY_INLINE void for_each_step(std::size_t n, Lanes (&lanes)[kSteps<N>], const Body& body) {
  constexpr std::size_t kTurn = kSteps<N> * N;
  Lanes sums[kSteps<N>];  // in registers, as lanes[k] of any k cannot be
  ADDNORM_UNROLL for (std::size_t k = 0; k < kSteps<N>; ++k) sums[k] = lanes[k];
  std::size_t i = 0;
  for (; i + kTurn <= n; i += kTurn) {
    ADDNORM_UNROLL for (std::size_t k = 0; k < kSteps<N>; ++k) {
      body(i + k * N, k, Whole(), sums[k]);
    }
  }
  if constexpr (kMasks) {
    ADDNORM_UNROLL for (std::size_t k = 0; k < kSteps<N>; ++k) {
      if (i + k * N < n) body(i + k * N, k, Part{n - i - k * N}, sums[k]);
    }
  } else if (i < n) {
    Lanes ends[kSteps<N>];  // in memory, for the few rows that need it
    ADDNORM_UNROLL for (std::size_t k = 0; k < kSteps<N>; ++k) ends[k] = sums[k];
    for (std::size_t k = 0; i < n; ++k, i += N) {
      if (N < kPack && i + N <= n) {
        body(i, k, Whole(), ends[k]);
      } else {
        body(i, k, Part{n - i}, ends[k]);
      }
    }
    ADDNORM_UNROLL for (std::size_t k = 0; k < kSteps<N>; ++k) sums[k] = ends[k];
  }
  ADDNORM_UNROLL for (std::size_t k = 0; k < kSteps<N>; ++k) lanes[k] = sums[k];
}

/// The same where nothing is summed: calls body(i, count).
template <std::size_t N, typename Body>
HWY_INLINE void for_each_step(std::size_t n, const Body& body) {
  struct Nothing {};
  Nothing nothing[kSteps<N>] = {};
  for_each_step<N>(n, nothing, [&](std::size_t i, std::size_t, auto count, Nothing&) ADDNORM_BODY {
    body(i, count);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace addnorm
HWY_AFTER_NAMESPACE();

#endif  // the guard for each instruction set
