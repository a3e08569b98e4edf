/// 16 values at a time, in as many vectors as an instruction set needs for them: one of AVX-512,
/// four of SSE4, NEON or WebAssembly. What is computed with a Pack has the same bits on all of
/// them. Included once for each instruction set (see highway's foreach_target.h).

#if defined(ADDNORM_KERNELS_PACK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ADDNORM_KERNELS_PACK_INL_H
#undef ADDNORM_KERNELS_PACK_INL_H
#else
#define ADDNORM_KERNELS_PACK_INL_H
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "addnorm/float16.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr std::size_t kPack = 16;

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
// Loops over 16 values: for double, which is there for references and tests (and of which
// WebAssembly's highway has no vectors), and for every type where there are no vectors.

// Left as loops, for a compiler to vectorize: unrolled they take very long to compile.
#undef ADDNORM_EACH_LANE
#ifdef __clang__
#define ADDNORM_EACH_LANE _Pragma("nounroll") for (std::size_t l = 0; l < kPack; ++l)
#else
#define ADDNORM_EACH_LANE _Pragma("GCC unroll 1") for (std::size_t l = 0; l < kPack; ++l)
#endif

template <typename T>
struct Pack {
  T v[kPack];
};

/// Whether packs of V are loops, and not vectors.
template <typename V>
concept Looped = HWY_TARGET == HWY_SCALAR || !std::is_same_v<V, float>;

/// Whether kernels have loops for what is asked most, beside the one that looks at all options as
/// it goes. Not where they would cost compile time and code that few run.
template <typename S, typename B>
inline constexpr bool kSpecialized = !Looped<Arithmetic<S>> && HWY_TARGET != HWY_SSE4 &&
                                     HWY_TARGET != HWY_WASM && !std::is_same_v<B, Float16>;

template <typename T>
HWY_INLINE Pack<T> set(T value) {
  Pack<T> p;
  ADDNORM_EACH_LANE p.v[l] = value;
  return p;
}
template <typename T>
HWY_INLINE Pack<T> operator+(Pack<T> a, const Pack<T>& b) {
  ADDNORM_EACH_LANE a.v[l] += b.v[l];
  return a;
}
template <typename T>
HWY_INLINE Pack<T> operator-(Pack<T> a, const Pack<T>& b) {
  ADDNORM_EACH_LANE a.v[l] -= b.v[l];
  return a;
}
template <typename T>
HWY_INLINE Pack<T> operator*(Pack<T> a, const Pack<T>& b) {
  ADDNORM_EACH_LANE a.v[l] *= b.v[l];
  return a;
}
template <typename T>
HWY_INLINE Pack<T> max(Pack<T> a, const Pack<T>& b) {
  ADDNORM_EACH_LANE a.v[l] = a.v[l] > b.v[l] ? a.v[l] : b.v[l];
  return a;
}
template <typename T>
HWY_INLINE Pack<T> abs(Pack<T> a) {
  ADDNORM_EACH_LANE a.v[l] = a.v[l] < 0 ? -a.v[l] : a.v[l];
  return a;
}

/// The values that are meant, and 0 in place of the others.
template <typename T>
HWY_INLINE Pack<T> keep(const Pack<T>& p, Whole) {
  return p;
}
template <typename T>
HWY_INLINE Pack<T> keep(Pack<T> p, Part part) {
  ADDNORM_EACH_LANE p.v[l] = l < part.count ? p.v[l] : T{0};
  return p;
}

template <typename T>
requires Looped<Arithmetic<T>> HWY_INLINE Pack<Arithmetic<T>> load(const T* from, Whole) {
  Pack<Arithmetic<T>> p;
  ADDNORM_EACH_LANE p.v[l] = static_cast<Arithmetic<T>>(from[l]);
  return p;
}
template <typename T>
requires Looped<Arithmetic<T>> HWY_INLINE Pack<Arithmetic<T>> load(const T* from, Part part) {
  Pack<Arithmetic<T>> p;
  ADDNORM_EACH_LANE p.v[l] = l < part.count ? static_cast<Arithmetic<T>>(from[l]) : 0;
  return p;
}
template <StoreTo kTo = StoreTo::kCache, Looped V, typename T>
HWY_INLINE void store(const Pack<V>& p, T* to, Whole) {
  ADDNORM_EACH_LANE to[l] = static_cast<T>(p.v[l]);
}
template <StoreTo kTo = StoreTo::kCache, Looped V, typename T>
HWY_INLINE void store(const Pack<V>& p, T* to, Part part) {
  for (std::size_t l = 0; l < part.count; ++l) to[l] = static_cast<T>(p.v[l]);
}

/// p as it will be read again from memory of type T.
template <Looped V, typename T>
HWY_INLINE Pack<V> rounded_to(T, Pack<V> p) {
  if constexpr (!std::is_same_v<V, T>) {
    ADDNORM_EACH_LANE p.v[l] = static_cast<V>(static_cast<T>(p.v[l]));
  }
  return p;
}

/// Stores p and gives it back as it will be read again.
template <StoreTo kTo = StoreTo::kCache, Looped V, typename T, typename Count>
HWY_INLINE Pack<V> store_rounded(const Pack<V>& p, T* to, Count count) {
  store(p, to, count);
  return rounded_to(T(), p);
}

/// Σ of the 16 values of each of kRows packs: lanes l and l + 8 are added, then l and l + 4, l + 2,
/// l + 1.
template <Looped V, std::size_t kRows>
HWY_INLINE void tree_sums(const Pack<V> (&p)[kRows], V (&sums)[kRows]) {
  for (std::size_t r = 0; r < kRows; ++r) {
    Pack<V> lanes = p[r];
    for (std::size_t half = kPack / 2; half > 0; half /= 2) {
      for (std::size_t l = 0; l < half; ++l) lanes.v[l] += lanes.v[l + half];
    }
    sums[r] = lanes.v[0];
  }
}

// ---------------------------------------------------------------------------------------------
// float: vectors

#if HWY_TARGET != HWY_SCALAR

using F32 = hn::CappedTag<float, kPack>;
using U32 = hn::RebindToUnsigned<F32>;
using U16 = hn::Rebind<std::uint16_t, F32>;
inline constexpr std::size_t kVector = hn::MaxLanes(F32());  // values of one vector
inline constexpr std::size_t kVectors = kPack / kVector;

template <>
struct Pack<float> {
  hn::Vec<F32> v[kVectors];
};

HWY_INLINE Pack<float> set(float value) {
  Pack<float> p;
  for (std::size_t k = 0; k < kVectors; ++k) p.v[k] = hn::Set(F32(), value);
  return p;
}

#define ADDNORM_PACK_OPERATOR(name, function)                                         \
  HWY_INLINE Pack<float> name(Pack<float> a, const Pack<float>& b) {                  \
    for (std::size_t k = 0; k < kVectors; ++k) a.v[k] = hn::function(a.v[k], b.v[k]); \
    return a;                                                                         \
  }
ADDNORM_PACK_OPERATOR(operator+, Add)
ADDNORM_PACK_OPERATOR(operator-, Sub)
ADDNORM_PACK_OPERATOR(operator*, Mul)
ADDNORM_PACK_OPERATOR(max, Max)
#undef ADDNORM_PACK_OPERATOR

HWY_INLINE Pack<float> abs(Pack<float> a) {
  for (std::size_t k = 0; k < kVectors; ++k) a.v[k] = hn::Abs(a.v[k]);
  return a;
}

HWY_INLINE Pack<float> keep(Pack<float> p, Part part) {
  for (std::size_t k = 0; k < kVectors; ++k) {
    const std::size_t begin = k * kVector;
    const std::size_t count = part.count > begin ? HWY_MIN(part.count - begin, kVector) : 0;
    p.v[k] = hn::IfThenElseZero(hn::FirstN(F32(), count), p.v[k]);
  }
  return p;
}

/// The first `count` values of a vector, and 0; nothing behind them is read.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_part(D d, const T* from, std::size_t count) {
#if HWY_TARGET == HWY_AVX3
  return hn::MaskedLoad(hn::FirstN(d, count), d, from);
#else
  HWY_ALIGN T buffer[hn::MaxLanes(D())] = {};
  std::memcpy(buffer, from, count * sizeof(T));
  return hn::Load(d, buffer);
#endif
}
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void store_part(hn::Vec<D> v, D d, T* to, std::size_t count) {
#if HWY_TARGET == HWY_AVX3
  hn::BlendedStore(v, hn::FirstN(d, count), d, to);
#else
  HWY_ALIGN T buffer[hn::MaxLanes(D())];
  hn::Store(v, d, buffer);
  std::memcpy(to, buffer, count * sizeof(T));
#endif
}

/// Vector k of a pack that begins at `from`.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_vector(D d, const T* from, std::size_t k, Whole) {
  return hn::LoadU(d, from + k * kVector);
}
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_vector(D d, const T* from, std::size_t k, Part part) {
  const std::size_t begin = k * kVector;
  if (part.count >= begin + kVector) return hn::LoadU(d, from + begin);
  if (part.count <= begin) return hn::Zero(d);
  return load_part(d, from + begin, part.count - begin);
}

template <StoreTo kTo, class D, typename T = hn::TFromD<D>>
HWY_INLINE void store_vector(hn::Vec<D> v, D d, T* to, std::size_t k, Whole) {
  if constexpr (kTo == StoreTo::kMemory) {
    hn::Stream(v, d, to + k * kVector);
  } else {
    hn::StoreU(v, d, to + k * kVector);
  }
}
template <StoreTo kTo, class D, typename T = hn::TFromD<D>>
HWY_INLINE void store_vector(hn::Vec<D> v, D d, T* to, std::size_t k, Part part) {
  const std::size_t begin = k * kVector;
  if (part.count >= begin + kVector) {
    hn::StoreU(v, d, to + begin);
  } else if (part.count > begin) {
    store_part(v, d, to + begin, part.count - begin);
  }
}

// float32 and the 16-bit types to and from a vector of float32.

template <typename Count>
HWY_INLINE hn::Vec<F32> load_float(const float* from, std::size_t k, Count count) {
  return load_vector(F32(), from, k, count);
}
#undef ADDNORM_HAVE_F16
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || (HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64)
#define ADDNORM_HAVE_F16 1
#else
#define ADDNORM_HAVE_F16 0
#endif

HWY_INLINE hn::Vec<U16> narrow(hn::Vec<U32> v) {
  return hn::TruncateTo(U16(), v);
}

HWY_INLINE hn::Vec<F32> from_bits(BFloat16, hn::Vec<U32> bits) {
  return hn::BitCast(F32(), hn::ShiftLeft<16>(bits));
}

HWY_INLINE hn::Vec<F32> from_bits(Float16, hn::Vec<U32> bits) {
#if ADDNORM_HAVE_F16
  return hn::PromoteTo(F32(), hn::BitCast(hn::Rebind<hwy::float16_t, F32>(), narrow(bits)));
#else
  const F32 f;  // as Float16's own conversion
  const U32 u;
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

template <typename Half, typename Count>
HWY_INLINE hn::Vec<F32> load_float(const Half* from, std::size_t k, Count count) {
  const auto bits = load_vector(U16(), reinterpret_cast<const std::uint16_t*>(from), k, count);
  return from_bits(Half(), hn::PromoteTo(U32(), bits));
}

HWY_INLINE hn::Vec<U32> to_bits(BFloat16, hn::Vec<F32> v) {
  const U32 u;
  const auto bits = hn::BitCast(u, v);
  const auto upper = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(upper, hn::Set(u, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(u, 0x7FFF)), odd));
  const auto quiet = hn::Or(upper, hn::Set(u, 0x40));
  const auto is_nan = hn::RebindMask(u, hn::IsNaN(v));
  return hn::IfThenElse(is_nan, quiet, rounded);
}

HWY_INLINE hn::Vec<U32> to_bits(Float16, hn::Vec<F32> v) {
#if ADDNORM_HAVE_F16
  return hn::PromoteTo(U32(),
                       hn::BitCast(U16(), hn::DemoteTo(hn::Rebind<hwy::float16_t, F32>(), v)));
#else
  const F32 f;  // as Float16's own conversion
  const U32 u;
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

template <typename T, typename Count>
requires(!Looped<Arithmetic<T>>) HWY_INLINE Pack<float> load(const T* from, Count count) {
  Pack<float> p;
  for (std::size_t k = 0; k < kVectors; ++k) p.v[k] = load_float(from, k, count);
  return p;
}

template <StoreTo kTo = StoreTo::kCache, typename Count>
HWY_INLINE void store(const Pack<float>& p, float* to, Count count) {
  for (std::size_t k = 0; k < kVectors; ++k) store_vector<kTo>(p.v[k], F32(), to, k, count);
}
template <StoreTo kTo = StoreTo::kCache, typename Half, typename Count>
HWY_INLINE void store(const Pack<float>& p, Half* to, Count count) {
  auto* bits = reinterpret_cast<std::uint16_t*>(to);
  for (std::size_t k = 0; k < kVectors; ++k) {
    store_vector<kTo>(narrow(to_bits(Half(), p.v[k])), U16(), bits, k, count);
  }
}

/// p as it will be read again from memory of type T.
HWY_INLINE Pack<float> rounded_to(float, const Pack<float>& p) {
  return p;
}
template <typename Half>
HWY_INLINE Pack<float> rounded_to(Half, const Pack<float>& p) {
  Pack<float> rounded;
  for (std::size_t k = 0; k < kVectors; ++k) {
    rounded.v[k] = from_bits(Half(), to_bits(Half(), p.v[k]));
  }
  return rounded;
}

template <StoreTo kTo = StoreTo::kCache, typename Count>
HWY_INLINE Pack<float> store_rounded(const Pack<float>& p, float* to, Count count) {
  store<kTo>(p, to, count);
  return p;
}
template <StoreTo kTo = StoreTo::kCache, typename Half, typename Count>
HWY_INLINE Pack<float> store_rounded(const Pack<float>& p, Half* to, Count count) {
  auto* stored = reinterpret_cast<std::uint16_t*>(to);
  Pack<float> rounded;
  for (std::size_t k = 0; k < kVectors; ++k) {
    const auto bits = to_bits(Half(), p.v[k]);
    store_vector<kTo>(narrow(bits), U16(), stored, k, count);
    rounded.v[k] = from_bits(Half(), bits);
  }
  return rounded;
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
/// Values l, l + 4, l + 8 and l + 12 of a pack, added as a tree, for l = 0 … 3.
HWY_INLINE hn::Vec<F32x4> fold(Pack<float> p) {
  for (std::size_t half = kVectors / 2; half > 0; half /= 2) {
    for (std::size_t k = 0; k < half; ++k) p.v[k] = hn::Add(p.v[k], p.v[k + half]);
  }
  return fold(F32(), p.v[0]);
}

template <std::size_t kRows>
HWY_INLINE void tree_sums(const Pack<float> (&p)[kRows], float (&sums)[kRows]) {
  const F32x4 d;
  HWY_ALIGN float lanes[kRows * 4];
  for (std::size_t r = 0; r < kRows; ++r) hn::Store(fold(p[r]), d, lanes + 4 * r);
  if constexpr (kRows == 4) {
    hn::Vec<F32x4> l0, l1, l2, l3;
    hn::LoadInterleaved4(d, lanes, l0, l1, l2, l3);
    hn::StoreU(hn::Add(hn::Add(l0, l2), hn::Add(l1, l3)), d, sums);
  } else {
    for (std::size_t r = 0; r < kRows; ++r) {
      const float* l = lanes + 4 * r;
      sums[r] = (l[0] + l[2]) + (l[1] + l[3]);
    }
  }
}

#endif  // HWY_TARGET != HWY_SCALAR

// ---------------------------------------------------------------------------------------------

#undef ADDNORM_BODY
/// For the bodies of loops over packs: a lambda is not of the instruction set around it by itself.
#define ADDNORM_BODY __attribute__((always_inline)) HWY_ATTR

/// Calls body(parity, i, count) for the packs of 0 … n − 1 that begin at i. The parity, a constant,
/// is 0 and 1 in turn: two sums run side by side, so that one need not wait for the other.
template <typename Body>
HWY_INLINE void for_each_pack(std::size_t n, const Body& body) {
  constexpr std::integral_constant<std::size_t, 0> kEven;
  constexpr std::integral_constant<std::size_t, 1> kOdd;
  std::size_t i = 0;
  for (; i + 2 * kPack <= n; i += 2 * kPack) {
    body(kEven, i, Whole());
    body(kOdd, i + kPack, Whole());
  }
  if (i < n) body(kEven, i, Part{HWY_MIN(n - i, kPack)});
  if (i + kPack < n) body(kOdd, i + kPack, Part{n - i - kPack});
}

}  // namespace HWY_NAMESPACE
}  // namespace addnorm
HWY_AFTER_NAMESPACE();

#endif  // the guard for each instruction set
