#include "kernels/softmax.h"

#include "kernels/simd/math.h"
#include "kernels/simd/row.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

template <typename V>
inline constexpr V kBlocked = -std::numeric_limits<V>::infinity();

template <typename V>
HWY_INLINE V largest(const V* x, std::size_t n) {
  Pack<V> maxima = set(kBlocked<V>);
  for_each_pack(n, [&](std::size_t i, auto count) ADDNORM_BODY {
    maxima = max(maxima, keep(load(x + i, count), count, kBlocked<V>));
  });
  return largest(maxima);
}

/// Returns Σ exp(x_i − maximum), and writes each term unless `terms` is null.
template <typename V>
HWY_INLINE V sum_terms(const V* x, std::size_t n, V maximum, V* terms) {
  return sum<V>(n, [&](std::size_t i, auto count) ADDNORM_BODY {
    const Pack<V> term = exp(load(x + i, count) - set(maximum));
    if (terms != nullptr) store(term, terms + i, count);
    return keep(term, count);
  });
}

template <typename V>
SoftmaxSum<V> terms(const V* x, std::size_t n, V* terms) {
  const V maximum = largest(x, n);
  return {maximum, sum_terms(x, n, maximum, terms)};
}

template <typename V>
void softmax(const SoftmaxRow<V>& row) {
  const std::size_t n = row.visible;
  V* s = row.scores.data();
  for (const auto& blocked : {row.blocked1, row.blocked2}) {
    for (std::size_t i = 0; i < HWY_MIN(n, blocked.size()); ++i) {
      s[i] = blocked[i] != 0 ? kBlocked<V> : s[i];
    }
  }
  std::fill(s + n, s + row.scores.size(), V{0});
  const V maximum = largest(s, n);
  const bool visible =  // a NaN is visible, and makes the whole row NaN
      maximum > kBlocked<V> || std::any_of(s, s + n, [](V v) { return v != kBlocked<V>; });
  if (!visible) {
    std::fill_n(s, n, V{0});
    return;
  }
  const Pack<V> factor = set(V{1} / sum_terms(s, n, maximum, s));
  for_each_pack(n, [&](std::size_t i, auto count)
                       ADDNORM_BODY { store(load(s + i, count) * factor, s + i, count); });
}

template <typename V>
void softmax_gradient(const V* p, std::size_t n, V* dp) {
  const Pack<V> mean = set(sum<V>(n, [&](std::size_t i, auto count) ADDNORM_BODY {
    return load(p + i, count) * load(dp + i, count);
  }));
  for_each_pack(n, [&](std::size_t i, auto count) ADDNORM_BODY {
    store(load(p + i, count) * (load(dp + i, count) - mean), dp + i, count);
  });
}

#define ADDNORM_INSTANTIATE(T)                                       \
  template SoftmaxSum<T> terms(const T* x, std::size_t n, T* terms); \
  template void softmax(const SoftmaxRow<T>&);                       \
  template void softmax_gradient(const T* p, std::size_t n, T* dp);
ADDNORM_FOR_TYPES(ADDNORM_INSTANTIATE)
#undef ADDNORM_INSTANTIATE

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
