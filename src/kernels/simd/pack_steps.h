/// A part of pack.h: loops over the values of a row, and their tails.

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

/// A pack as stored in memory of type T.
template <typename T, typename V, std::size_t N, typename Count>
HWY_INLINE Stored<T, N> rounded(const Pack<V, N>& p, [[maybe_unused]] Count count) {
  if constexpr (std::is_same_v<T, BFloat16> && !Looped<V>) {
    return as_stored(T(), p, count);
  } else {
    return as_stored(T(), p);
  }
}
template <Stores kStores = Stores::kCached, typename V, std::size_t N, typename T, typename Count>
HWY_INLINE void store(const Pack<V, N>& p, T* to, Count count) {
  store<kStores>(rounded<T>(p, count), to, count);
}

#undef ADDNORM_BODY
/// For the bodies of loops over packs: a lambda does not inherit the instruction set of the
/// function around it.
#define ADDNORM_BODY __attribute__((always_inline)) HWY_ATTR

/// The size of packs that go through many operations: two vectors, because longer packs would spill
/// registers.
template <typename V>
inline constexpr std::size_t kSmallPack = 4;
#if HWY_TARGET != HWY_SCALAR
template <>
inline constexpr std::size_t kSmallPack<float> = 2 * kVector<kPack>;
#endif

/// Whether loops over steps have a separate body for full steps.
inline constexpr bool kFullSteps = HWY_TARGET != HWY_SCALAR;

/// Calls body(i, count) for the packs of 0 … n − 1 that begin at i.
template <std::size_t N = kPack, typename Body>
HWY_INLINE void for_each_pack(std::size_t n, const Body& body) {
  std::size_t i = 0;
  if constexpr (kFullSteps) {
    for (; i + N <= n; i += N) body(i, Full());
  }
  for (; i < n; i += N) body(i, Tail{HWY_MIN(N, n - i)});
}

/// The number of values in one step of a loop over S and B: as few as its instructions process at
/// once, so that everything stays in registers. Two vectors of float32 round to one of 16 bits;
/// with many registers, two of those are rounded together.
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

/// The number of steps of N values in a pack (1 if they are longer), each with its own lanes for
/// sums.
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

/// fold() of a pack that is stored in parts: member `part` of each element of `lanes`.
template <typename V, std::size_t N, typename Lanes>
HWY_INLINE Pack<V, 4> fold(const Lanes (&lanes)[kSteps<N>], Pack<V, N> Lanes::*part) {
  Pack<V> p;
  constexpr std::size_t kSize = std::extent_v<decltype(Pack<V, N>::v)>;
  for (std::size_t i = 0; i < std::extent_v<decltype(p.v)>; ++i) {
    p.v[i] = (lanes[i / kSize].*part).v[i % kSize];
  }
  return fold(p);
}

/// Sets lanes to 0.
template <std::size_t N, typename Lanes>
HWY_INLINE void clear(Lanes (&lanes)[kSteps<N>]) {
  ADDNORM_UNROLL for (std::size_t k = 0; k < kSteps<N>; ++k) lanes[k] = Lanes::zero();
}

/// Calls body(i, k, count, lanes[k]) for the steps of N values of 0 … n − 1 that begin at i. k is
/// the index of a step in its pack, and lanes[k] holds its sums.
template <std::size_t N, typename Lanes, typename Body>
HWY_INLINE void for_each_step(std::size_t n, Lanes (&lanes)[kSteps<N>], const Body& body) {
  constexpr std::size_t kTurn = kSteps<N> * N;
  Lanes sums[kSteps<N>];  // in registers, unlike lanes[k] with a variable k
  ADDNORM_UNROLL for (std::size_t k = 0; k < kSteps<N>; ++k) sums[k] = lanes[k];
  std::size_t i = 0;
  if constexpr (kFullSteps) {
    for (; i + kTurn <= n; i += kTurn) {
      ADDNORM_UNROLL for (std::size_t k = 0; k < kSteps<N>; ++k) {
        body(i + k * N, k, Full(), sums[k]);
      }
    }
  }
  if (i < n) {
    Lanes ends[kSteps<N>];  // in memory, for the few rows that need them
    ADDNORM_UNROLL for (std::size_t k = 0; k < kSteps<N>; ++k) ends[k] = sums[k];
    ADDNORM_NO_UNROLL for (std::size_t k = 0; i < n; ++k, i += N) {
      body(i, k, Tail{HWY_MIN(N, n - i)}, ends[k % kSteps<N>]);
    }
    ADDNORM_UNROLL for (std::size_t k = 0; k < kSteps<N>; ++k) sums[k] = ends[k];
  }
  ADDNORM_UNROLL for (std::size_t k = 0; k < kSteps<N>; ++k) lanes[k] = sums[k];
}

/// The same without sums: calls body(i, k, count).
template <std::size_t N, typename Body>
HWY_INLINE void for_each_step(std::size_t n, const Body& body) {
  struct Nothing {};
  Nothing nothing[kSteps<N>] = {};
  for_each_step<N>(n, nothing,
                   [&](std::size_t i, std::size_t k, auto count, Nothing&)
                       ADDNORM_BODY { body(i, k, count); });
}

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
