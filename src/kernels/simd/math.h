/// exp, erfc, erf and tanh of packs. In float32 they have the same bits on every machine. In
/// float64, for references and tests, they are the standard library's.

#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "kernels/simd/pack.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

/// (((first)·x + second)·x + third) …
template <std::size_t N, typename... Rest>
HWY_INLINE Pack<float, N> polynomial(const Pack<float, N>& x, float first, Rest... rest) {
  Pack<float, N> p = set<N>(first);
  ((p = p * x + set<N>(rest)), ...);
  return p;
}

/// Returns 2ⁿ; n is in the low bits of each value.
#if HWY_TARGET == HWY_SCALAR
template <std::size_t N>
HWY_INLINE Pack<float, N> power_of_two(Pack<float, N> p) {
  ADDNORM_EACH_LANE p.v[l] =
      std::bit_cast<float>((std::bit_cast<std::uint32_t>(p.v[l]) + 127U) << 23);
  return p;
}
#else
template <std::size_t N>
HWY_INLINE Pack<float, N> power_of_two(Pack<float, N> p) {
  const F32<N> f;
  const U32<F32<N> > u;
  ADDNORM_EACH_VECTOR {
    const auto biased = hn::Add(hn::BitCast(u, p.v[k]), hn::Set(u, 127));
    p.v[k] = hn::BitCast(f, hn::ShiftLeft<23>(biased));
  }
  return p;
}
#endif

/// exp(x) with an error of about 1 ulp: 2ⁿ·exp(r) with r = x − n·ln 2, |r| ≤ ln 2/2, and a
/// polynomial for exp(r) (Cephes expf). It is 0 below −87.7 and Inf above 88.3; NaN stays NaN.
template <std::size_t N>
HWY_INLINE Pack<float, N> exp(Pack<float, N> x) {
  const Pack<float, N> lowest = set<N>(-88.0F);
  const Pack<float, N> highest = set<N>(88.7F);
  x = if_below(x, lowest, lowest, x);
  x = if_below(highest, x, highest, x);
  const Pack<float, N> rounder = set<N>(12582912.0F);  // 1.5·2²³: leaves n in the low bits
  const Pack<float, N> shifted = x * set<N>(std::numbers::log2e_v<float>) + rounder;
  const Pack<float, N> n = shifted - rounder;
  const Pack<float, N> r = (x - n * set<N>(0.693359375F)) - n * set<N>(-2.12194440e-4F);
  const Pack<float, N> p = polynomial(r, 1.9875691500e-4F, 1.3981999507e-3F, 8.3334519073e-3F,
                                      4.1665795894e-2F, 1.6666665459e-1F, 5.0000001201e-1F);
  return (p * (r * r) + r + set<N>(1.0F)) * power_of_two(shifted);
}
template <std::size_t N>
HWY_INLINE Pack<double, N> exp(Pack<double, N> x) {
  ADDNORM_EACH_LANE x.v[l] = std::exp(x.v[l]);
  return x;
}

/// erfc(z) with an absolute error of 4e-7, and a relative one of 1.2e-6 below z = 3: a Chebyshev
/// fit (Press et al., Numerical Recipes, section 6.2).
template <std::size_t N>
HWY_INLINE Pack<float, N> erfc(const Pack<float, N>& z) {
  const Pack<float, N> a = abs(z);
  const Pack<float, N> one = set<N>(1.0F);
  const Pack<float, N> t = one / (one + set<N>(0.5F) * a);
  const Pack<float, N> p =
      polynomial(t, 0.17087277F, -0.82215223F, 1.48851587F, -1.13520398F, 0.27886807F, -0.18628806F,
                 0.09678418F, 0.37409196F, 1.00002368F, -1.26551223F);
  const Pack<float, N> tail = t * exp(p - a * a);
  return if_below(z, set<N>(0.0F), set<N>(2.0F) - tail, tail);
}
template <std::size_t N>
HWY_INLINE Pack<double, N> erfc(Pack<double, N> z) {
  ADDNORM_EACH_LANE z.v[l] = std::erfc(z.v[l]);
  return z;
}

/// Returns `odd`, which is not negative, with the sign of x.
template <std::size_t N>
HWY_INLINE Pack<float, N> with_sign_of(const Pack<float, N>& x, const Pack<float, N>& odd) {
  const Pack<float, N> zero = set<N>(0.0F);
  return if_below(x, zero, zero - odd, odd);
}

/// erf(z) with an absolute error of 4e-7 and a relative one of 5e-7: a polynomial below |z| = 1
/// (Cephes erff), 1 − erfc above.
template <std::size_t N>
HWY_INLINE Pack<float, N> erf(const Pack<float, N>& z) {
  const Pack<float, N> one = set<N>(1.0F);
  const Pack<float, N> a = abs(z);
  const Pack<float, N> near =
      z * polynomial(z * z, 7.853861353153693e-5F, -8.010193625184903e-4F, 5.188327685732524e-3F,
                     -2.685381193529856e-2F, 1.128358514861418e-1F, -3.761262582423300e-1F,
                     1.128379165726710F);
  return if_below(a, one, near, with_sign_of(z, one - erfc(a)));
}
template <std::size_t N>
HWY_INLINE Pack<double, N> erf(Pack<double, N> z) {
  ADDNORM_EACH_LANE z.v[l] = std::erf(z.v[l]);
  return z;
}

/// tanh(x) with an error of 2 ulp: a polynomial below |x| = 0.625 (Cephes tanhf), 1 − 2/(exp(2|x|)
/// + 1) above.
template <std::size_t N>
HWY_INLINE Pack<float, N> tanh(const Pack<float, N>& x) {
  const Pack<float, N> one = set<N>(1.0F);
  const Pack<float, N> a = abs(x);
  const Pack<float, N> z = x * x;
  const Pack<float, N> near =
      x + x * (z * polynomial(z, -5.70498872745e-3F, 2.06390887954e-2F, -5.37397155531e-2F,
                              1.33314422036e-1F, -3.33332819422e-1F));
  const Pack<float, N> far = one - set<N>(2.0F) / (exp(a + a) + one);
  return if_below(a, set<N>(0.625F), near, with_sign_of(x, far));
}
template <std::size_t N>
HWY_INLINE Pack<double, N> tanh(Pack<double, N> x) {
  ADDNORM_EACH_LANE x.v[l] = std::tanh(x.v[l]);
  return x;
}

template <typename V, std::size_t N>
HWY_INLINE Pack<V, N> sigmoid(const Pack<V, N>& x) {
  const Pack<V, N> one = set<N>(V{1});
  return one / (one + exp(set<N>(V{0}) - x));
}

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
