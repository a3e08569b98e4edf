/// A part of pack.h: packs as loops over their values. They serve double, for references and
/// tests (WebAssembly's highway has no vectors of it), and every type on targets without vectors.
/// They are called, not inlined: their speed rarely matters, and a kernel of calls compiles in a
/// tenth of the time.

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

// The loops are not unrolled, so that a compiler can vectorize them: unrolled they take very long
// to compile.
#undef ADDNORM_EACH_LANE
#define ADDNORM_EACH_LANE ADDNORM_NO_UNROLL for (std::size_t l = 0; l < N; ++l)

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
template <Looped T, std::size_t N>
HWY_INLINE Pack<T, N> operator+(const Pack<T, N>& a, Broadcast<T, N> b) {
  return a + set<N>(b.v);
}
template <Looped T, std::size_t N>
HWY_INLINE Pack<T, N> operator-(const Pack<T, N>& a, Broadcast<T, N> b) {
  return a - set<N>(b.v);
}
template <Looped T, std::size_t N>
HWY_INLINE Pack<T, N> operator*(const Pack<T, N>& a, Broadcast<T, N> b) {
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
/// Returns bit l set if lane l of a is below b's; it is not set for NaN.
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
/// Returns `yes` where a is below b, else `no`, also for NaN.
template <Looped T, std::size_t N>
HWY_NOINLINE Pack<T, N> if_below(const Pack<T, N>& a, const Pack<T, N>& b, const Pack<T, N>& yes,
                                 Pack<T, N> no) {
  ADDNORM_EACH_LANE no.v[l] = a.v[l] < b.v[l] ? yes.v[l] : no.v[l];
  return no;
}
/// Returns the largest value; any value if one is NaN.
template <Looped T, std::size_t N>
HWY_NOINLINE T largest(const Pack<T, N>& p) {
  T value = p.v[0];
  ADDNORM_EACH_LANE value = value > p.v[l] ? value : p.v[l];
  return value;
}

/// Returns the valid values, and 0 in place of the others.
template <typename T, std::size_t N>
HWY_INLINE Pack<T, N> keep(const Pack<T, N>& p, Full) {
  return p;
}
template <Looped T, std::size_t N>
HWY_NOINLINE Pack<T, N> keep(Pack<T, N> p, Tail tail) {
  ADDNORM_EACH_LANE p.v[l] = l < tail.count ? p.v[l] : T{0};
  return p;
}
/// Returns the valid values, and `other` in place of the others.
template <typename T, std::size_t N>
HWY_INLINE Pack<T, N> keep(const Pack<T, N>& p, Full, T) {
  return p;
}
template <Looped T, std::size_t N>
HWY_NOINLINE Pack<T, N> keep(Pack<T, N> p, Tail tail, T other) {
  ADDNORM_EACH_LANE p.v[l] = l < tail.count ? p.v[l] : other;
  return p;
}

template <std::size_t N = kPack, typename T>
requires Looped<Arithmetic<T>> HWY_NOINLINE Pack<Arithmetic<T>, N> load(const T* from, Full) {
  Pack<Arithmetic<T>, N> p;
  ADDNORM_EACH_LANE p.v[l] = static_cast<Arithmetic<T>>(from[l]);
  return p;
}
template <std::size_t N = kPack, typename T>
requires Looped<Arithmetic<T>> HWY_NOINLINE Pack<Arithmetic<T>, N> load(const T* from, Tail tail) {
  Pack<Arithmetic<T>, N> p;
  ADDNORM_EACH_LANE p.v[l] = l < tail.count ? static_cast<Arithmetic<T>>(from[l]) : 0;
  return p;
}
template <typename T, std::size_t N>
requires Looped<Arithmetic<T>> HWY_NOINLINE Stored<T, N> as_stored(
    T, const Pack<Arithmetic<T>, N>& p) {
  Stored<T, N> stored;
  ADDNORM_EACH_LANE stored.v[l] = static_cast<T>(p.v[l]);
  return stored;
}
template <typename T, std::size_t N>
requires Looped<Arithmetic<T>> HWY_NOINLINE Pack<Arithmetic<T>, N> value_of(const Stored<T, N>& s) {
  return load<N>(s.v, Full());
}
template <Stores kStores = Stores::kCached, typename T, std::size_t N>
requires Looped<Arithmetic<T>> HWY_NOINLINE void store(const Stored<T, N>& s, T* to, Full) {
  ADDNORM_EACH_LANE to[l] = s.v[l];
}
template <Stores kStores = Stores::kCached, typename T, std::size_t N>
requires Looped<Arithmetic<T>> HWY_NOINLINE void store(const Stored<T, N>& s, T* to, Tail tail) {
  for (std::size_t l = 0; l < tail.count; ++l) to[l] = s.v[l];
}

template <Looped V, std::size_t N>
HWY_NOINLINE Pack<V, 4> first_four(const Pack<V, N>& p) {
  return {{p.v[0], p.v[1], p.v[2], p.v[3]}};
}
/// Adds a pack's values as a tree until four are left: lanes l and l + N/2 are added, then l and l
/// + N/4, and so on.
template <Looped V, std::size_t N>
HWY_NOINLINE Pack<V, 4> fold(Pack<V, N> p) {
  for (std::size_t half = N / 2; half >= 4; half /= 2) {
    for (std::size_t l = 0; l < half; ++l) p.v[l] += p.v[l + half];
  }
  return first_four(p);
}
/// Adds a pack's values as a tree until one is left.
template <Looped V, std::size_t N>
HWY_NOINLINE V tree_sum(const Pack<V, N>& p) {
  const Pack<V, 4> l = fold(p);
  return (l.v[0] + l.v[2]) + (l.v[1] + l.v[3]);
}
/// tree_sum() of four packs, as one pack.
template <Looped V, std::size_t N>
HWY_NOINLINE Pack<V, 4> tree_sums(const Pack<V, N> (&p)[4]) {
  return {{tree_sum(p[0]), tree_sum(p[1]), tree_sum(p[2]), tree_sum(p[3])}};
}

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
