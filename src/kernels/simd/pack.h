/// Packs of 32 values, in as many vectors as an instruction set needs for them: two of AVX-512,
/// eight of SSE4, NEON or WebAssembly. Computations with a Pack have the same bits on all
/// instruction sets.

#pragma once

#include "kernels/simd/target.h"
//
#include <hwy/cache_control.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "addnorm/float16.h"
#include "kernels/constant_block.h"
#include "kernels/stores.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// The usual number of values in a pack; a short row has a pack of its own size.
inline constexpr std::size_t kPack = 32;

/// The valid values of a pack: all, or, at the end of a row, the first ones.
struct Full {};
struct Tail {
  std::size_t count;
};

#undef ADDNORM_UNROLL
#undef ADDNORM_NO_UNROLL
/// For loops whose packs must stay in registers, if there are enough registers.
#ifdef __clang__
#define ADDNORM_UNROLL _Pragma("unroll")
#define ADDNORM_NO_UNROLL _Pragma("nounroll")
#else
#define ADDNORM_UNROLL _Pragma("GCC unroll 8")
#define ADDNORM_NO_UNROLL _Pragma("GCC unroll 1")
#endif

template <typename T, std::size_t N = kPack>
struct Pack {
  T v[N];
};

/// Whether there are masks for vectors of all types. Then the registers also hold two or four times
/// as many values.
inline constexpr bool kMasks = HWY_TARGET == HWY_AVX3;

/// Whether packs of V are loops instead of vectors.
template <typename V>
concept Looped = HWY_TARGET == HWY_SCALAR || !std::is_same_v<V, float>;

/// Whether kernels have specialized loops for the common cases, besides those that test all
/// options. Rare cases have none, which saves compile time and code size.
template <typename S, typename B>
inline constexpr bool kSpecialized =
    !Looped<Arithmetic<S>> && HWY_TARGET != HWY_SSE4 && HWY_TARGET != HWY_WASM &&
    (!std::is_same_v<B, Float16> || std::is_same_v<S, B>);

/// A number that a loop combines with packs. A compiler could keep a Pack of equal values in
/// several registers.
template <typename T, std::size_t N = kPack>
struct Broadcast {
  T v;

  HWY_INLINE explicit Broadcast(T value) : v(value) {}
};
/// A pack as stored in memory of type T: rounded.
template <typename T, std::size_t N = kPack>
struct Stored {
  T v[N];
};

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();

#include "kernels/simd/pack_scalar.h"
#if HWY_TARGET != HWY_SCALAR
#include "kernels/simd/pack_float32.h"
//
#include "kernels/simd/pack_memory.h"
//
#include "kernels/simd/pack_16bit.h"
#endif
#include "kernels/simd/pack_steps.h"
