/// A part of pack.h: packs of float32, in vectors.

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

template <std::size_t N>
using F32 = hn::CappedTag<float, N>;
template <class D>
using U32 = hn::RebindToUnsigned<D>;
template <class D>
using U16 = hn::Rebind<std::uint16_t, D>;

/// The number of values in one vector of a pack, and the number of its vectors.
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
struct Broadcast<float, N> {
  hn::Vec<F32<N>> v;

  HWY_INLINE explicit Broadcast(float value) : v(hn::Set(F32<N>(), value)) {}
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
#define ADDNORM_BROADCAST_OPERATOR(name, function)                                 \
  template <std::size_t N>                                                         \
  HWY_INLINE Pack<float, N> name(Pack<float, N> a, const Broadcast<float, N>& b) { \
    ADDNORM_EACH_VECTOR a.v[k] = hn::function(a.v[k], b.v);                        \
    return a;                                                                      \
  }
ADDNORM_BROADCAST_OPERATOR(operator+, Add)
ADDNORM_BROADCAST_OPERATOR(operator-, Sub)
ADDNORM_BROADCAST_OPERATOR(operator*, Mul)
#undef ADDNORM_BROADCAST_OPERATOR

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

/// Returns the mask of vector k's values that are among the first `tail.count` of a pack.
template <class D>
HWY_INLINE hn::Mask<D> tail_mask(D d, Tail tail, std::size_t k) {
#if HWY_TARGET == HWY_AVX3
  // One number serves all vectors: hn::FirstN() of each vector's rest would branch.
  static_cast<void>(d);
  constexpr std::size_t kSize = hn::MaxLanes(D());
  constexpr std::uint64_t kLanes =
      kSize == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << kSize) - 1;
  const std::uint64_t bits = _bzhi_u64(~std::uint64_t{0}, tail.count) >> (k * kSize) & kLanes;
  return {static_cast<decltype(hn::Mask<D>::raw)>(bits)};
#else
  const hn::RebindToSigned<D> i;
  using Index = hn::TFromD<decltype(i)>;
  const auto first = hn::Iota(i, static_cast<Index>(k * hn::MaxLanes(D())));
  return hn::RebindMask(d, hn::Lt(first, hn::Set(i, static_cast<Index>(tail.count))));
#endif
}

template <std::size_t N>
HWY_INLINE Pack<float, N> keep(Pack<float, N> p, Tail tail) {
  ADDNORM_EACH_VECTOR {
    p.v[k] = hn::IfThenElseZero(tail_mask(F32<N>(), tail, k), p.v[k]);
  }
  return p;
}
template <std::size_t N>
HWY_INLINE Pack<float, N> keep(Pack<float, N> p, Tail tail, float other) {
  const auto others = hn::Set(F32<N>(), other);
  ADDNORM_EACH_VECTOR {
    p.v[k] = hn::IfThenElse(tail_mask(F32<N>(), tail, k), p.v[k], others);
  }
  return p;
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

/// Writes value k of the packs, side by side, to `to` + k·stride.
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

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
