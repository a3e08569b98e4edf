/// A part of pack.h: loads and stores of packs of float32, whole or in part, as float32 or as
/// words of 16 bits.

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

// Loads or stores vector k of a pack that begins at `from` or `to`.

template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_vector(D d, const T* from, std::size_t k, Full) {
  return hn::LoadU(d, from + k * hn::MaxLanes(d));
}
template <Stores kStores, class D, typename T = hn::TFromD<D>>
HWY_INLINE void store_vector(hn::Vec<D> v, D d, T* to, std::size_t k, Full) {
  if constexpr (kStores == Stores::kNonTemporal) {
    hn::Stream(v, d, to + k * hn::MaxLanes(d));
  } else {
    hn::StoreU(v, d, to + k * hn::MaxLanes(d));
  }
}

// A partial load or store accesses only the memory of the valid values; a load sets the others to
// 0. These functions use masks or a buffer. They are not inlined, because they would be most of a
// kernel's code.

template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_vector(D d, const T* from, std::size_t k, Tail tail) {
  return hn::MaskedLoad(tail_mask(d, tail, k), d, from + k * hn::MaxLanes(d));
}
template <Stores kStores, class D, typename T = hn::TFromD<D>>
HWY_INLINE void store_vector(hn::Vec<D> v, D d, T* to, std::size_t k, Tail tail) {
  if constexpr (kStores == Stores::kNonTemporal) {
    // There are no masked non-temporal stores, and a masked store without values still loads its
    // line.
    if ((k + 1) * hn::MaxLanes(d) <= tail.count) return store_vector<kStores>(v, d, to, k, Full());
    if (k * hn::MaxLanes(d) >= tail.count) return;
  }
  hn::BlendedStore(v, tail_mask(d, tail, k), d, to + k * hn::MaxLanes(d));
}

// Memory of 16-bit types has a word for each value of a pack. One vector of words corresponds to
// one vector of float32, or to two.

template <std::size_t N>
using Word = hn::CappedTag<std::uint16_t, N>;
template <std::size_t N>
inline constexpr std::size_t kWordVectors = N / hn::MaxLanes(Word<N>());
template <std::size_t N>
inline constexpr bool kPaired = kVectors<N> == 2 * kWordVectors<N>;

/// The vectors that access memory of type T: of float32, or of words.
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
template <Stores kStores, typename T, std::size_t N, typename Count>
HWY_INLINE void store_vectors(const Stored<T, N>& s, T* to, Count count) {
  using D = Storage<T, N>;
  ADDNORM_UNROLL for (std::size_t k = 0; k < kStoredVectors<T, N>; ++k) {
    store_vector<kStores>(s.v[k], D(), reinterpret_cast<hn::TFromD<D>*>(to), k, count);
  }
}
/// Stores the first values of a vector.
template <class D, typename T = hn::TFromD<D>>
HWY_NOINLINE void store_some(hn::Vec<D> v, T* to, std::size_t count) {
  HWY_ALIGN T buffer[hn::MaxLanes(D())];
  hn::Store(v, D(), buffer);
  std::memcpy(to, buffer, count * sizeof(T));
}
template <typename T, std::size_t N>
HWY_INLINE void store_tail(const Stored<T, N>& s, T* to, std::size_t count) {
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
template <Stores kStores = Stores::kCached, typename T, std::size_t N>
HWY_INLINE void store(const Stored<T, N>& s, T* to, Full) {
  store_vectors<kStores>(s, to, Full());
}
template <Stores kStores = Stores::kCached, typename T, std::size_t N>
HWY_INLINE void store(const Stored<T, N>& s, T* to, Tail tail) {
  if constexpr (kMasks) {
    store_vectors<kStores>(s, to, tail);
  } else {
    store_tail(s, to, tail.count);
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

template <std::size_t N, typename T>
HWY_NOINLINE Pack<float, N> load_tail(const T* from, std::size_t count) {
  HWY_ALIGN std::byte buffer[N * sizeof(T)] = {};
  std::memcpy(buffer, from, count * sizeof(T));
  return value_of(load_stored<T, N>(reinterpret_cast<const T*>(buffer), Full()));
}
template <std::size_t N = kPack, typename T>
requires(!Looped<Arithmetic<T>>) HWY_INLINE Pack<float, N> load(const T* from, Full) {
  return value_of(load_stored<T, N>(from, Full()));
}
template <std::size_t N = kPack, typename T>
requires(!Looped<Arithmetic<T>>) HWY_INLINE Pack<float, N> load(const T* from, Tail tail) {
  // AVX2 has masked loads of 4-byte values only.
  if constexpr (kMasks || (HWY_TARGET == HWY_AVX2 && sizeof(T) == 4)) {
    return value_of(load_stored<T, N>(from, tail));
  } else {
    return load_tail<N>(from, tail.count);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
