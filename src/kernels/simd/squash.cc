#include "kernels/squash.h"

#include "kernels/constant_block.h"
#include "kernels/feature_vector.h"
#include "kernels/simd/math.h"
#include "kernels/thread_memory.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

/// u = α·s + shift.
template <typename V>
struct SquashInput {
  V alpha, shift;

  template <typename Args>
  SquashInput(const NormOptions& options, const Args& args)
      : alpha(args.alpha.empty() ? static_cast<V>(options.alpha) : args.alpha[0]),
        shift(args.shift.empty() ? V{0} : args.shift[0]) {}
};

struct Tanh {
  template <typename V, std::size_t N>
  static HWY_INLINE Pack<V, N> value(const Pack<V, N>& u) {
    return tanh(u);
  }
  /// 1/cosh²(u), without the cancellation of 1 − tanh².
  template <typename V, std::size_t N>
  static HWY_INLINE Pack<V, N> slope(const Pack<V, N>& u) {
    const Pack<V, N> e = exp(set<N>(V{-2}) * abs(u));
    const Pack<V, N> sum = set<N>(V{1}) + e;
    return set<N>(V{4}) * e / (sum * sum);
  }
};

struct Erf {
  template <typename V, std::size_t N>
  static HWY_INLINE Pack<V, N> value(const Pack<V, N>& u) {
    return erf(u);
  }
  template <typename V, std::size_t N>
  static HWY_INLINE Pack<V, N> slope(const Pack<V, N>& u) {
    return exp(set<N>(V{0}) - u * u) * set<N>(2 * std::numbers::inv_sqrtpi_v<V>);
  }
};

/// Computes the function's values at u, and its slopes unless `slope` is null, in whole packs: each
/// array has room for kBlock values. Compiled once for each arithmetic type, not for each storage
/// of x and y.
template <typename F, typename V>
HWY_NOINLINE void evaluate(F, std::size_t n, const V* u, V* value, V* slope) {
  constexpr std::size_t kN = kSmallPack<V>;
  for (std::size_t i = 0; i < n; i += kN) {
    const Pack<V, kN> at = load<kN>(u + i, Full());
    if (slope != nullptr) store(F::slope(at), slope + i, Full());
    store(F::value(at), value + i, Full());
  }
}
template <typename V>
void evaluate(NormKind kind, std::size_t n, const V* u, V* value, V* slope) {
  if (kind == NormKind::kDyT) {
    evaluate(Tanh(), n, u, value, slope);
  } else {
    evaluate(Erf(), n, u, value, slope);
  }
}

/// u = α·s + shift for n values.
template <typename S, typename V>
HWY_INLINE void scale_input(const SquashInput<V>& inner, std::size_t n, const S* s, V* u) {
  constexpr std::size_t kN = kSmallPack<V>;
  for_each_pack<kN>(n, [&](std::size_t i, auto count) ADDNORM_BODY {
    store(load<kN>(s + i, count) * set<kN>(inner.alpha) + set<kN>(inner.shift), u + i, count);
  });
  std::fill_n(u + n, (kN - n % kN) % kN, V{0});
}

template <typename S, typename B>
void squash_rows_forward(const NormOptions& options, const AddNormForward<S, B>& args,
                         const MatrixView<const S>& s, std::size_t begin, std::size_t end) {
  using V = Arithmetic<S>;
  constexpr std::size_t kN = kSmallPack<V>;
  const SquashInput<V> inner(options, args);
  FeatureVector<V> gammas = FeatureVector<V>::gamma(options, args.gamma);
  FeatureVector<V> betas = FeatureVector<V>::beta(options, args.beta);
  gammas.stage(thread_region<V>(0), s.cols, false);
  betas.stage(thread_region<V>(1), s.cols, false);
  V* const u = thread_region<V>(2);
  for (std::size_t r = begin; r < end; ++r) {
    for (std::size_t column = 0; column < s.cols; column += kBlock) {
      const std::size_t n = HWY_MIN(kBlock, s.cols - column);
      B* const y = args.y.row(r).data() + column;
      const V* const gamma = gammas.at(column, n);
      const V* const beta = betas.at(column, n);
      scale_input(inner, n, s.row(r).data() + column, u);
      evaluate<V>(options.kind, n, u, u, nullptr);
      for_each_pack<kN>(n, [&](std::size_t i, auto count) ADDNORM_BODY {
        const Pack<V, kN> scaled = load<kN>(gamma + i, count) * load<kN>(u + i, count);
        store(scaled + load<kN>(beta + i, count), y + i, count);
      });
    }
  }
}

template <typename S, typename B>
void squash_rows_backward(const NormOptions& options, const AddNormBackward<S, B>& args,
                          const SquashSums<Arithmetic<S>>& sums, std::size_t begin,
                          std::size_t end) {
  using V = Arithmetic<S>;
  constexpr std::size_t kN = kSmallPack<V>;
  const std::size_t cols = args.s.cols;
  const SquashInput<V> inner(options, args);
  FeatureVector<V> gammas = FeatureVector<V>::gamma(options, args.gamma);
  FeatureVector<V> skips = FeatureVector<V>::scale(args.skip);
  gammas.stage(thread_region<V>(0), cols, false);
  skips.stage(thread_region<V>(1), cols, false);
  V* const value = thread_region<V>(2);  // first holds u
  V* const slope = thread_region<V>(3);
  for (std::size_t r = begin; r < end; ++r) {
    for (std::size_t column = 0; column < cols; column += kBlock) {
      const std::size_t n = HWY_MIN(kBlock, cols - column);
      const S* const in = args.s.row(r).data() + column;
      const B* const dy_row = args.dy.row(r).data() + column;
      const S* const past =
          args.d_residual.empty() ? minus_zeros<S>() : args.d_residual.row(r).data() + column;
      S* const dx = args.dx.row(r).data() + column;
      const V* const gamma = gammas.at(column, n);
      const V* const skip = skips.at(column, n);
      scale_input(inner, n, in, value);
      evaluate<V>(options.kind, n, value, value, slope);
      for_each_pack<kN>(n, [&](std::size_t i, auto count) ADDNORM_BODY {
        const auto add = [&](V* to, const Pack<V, kN>& term) ADDNORM_BODY {
          V* const at = to + column + i;
          store(load<kN>(at, count) + term, at, count);
        };
        const Pack<V, kN> x = load<kN>(in + i, count), dy = load<kN>(dy_row + i, count);
        const Pack<V, kN> du = load<kN>(gamma + i, count) * dy * load<kN>(slope + i, count);
        const Pack<V, kN> around = load<kN>(skip + i, count) * load<kN>(past + i, count);
        store(around + du * set<kN>(inner.alpha), dx + i, count);
        add(sums.gamma, dy * load<kN>(value + i, count));
        add(sums.beta, dy);
        add(sums.alpha, du * x);
        add(sums.shift, du);
      });
    }
  }
}

#define ADDNORM_INSTANTIATE(S, B)                                                         \
  template void squash_rows_forward(const NormOptions&, const AddNormForward<S, B>&,      \
                                    const MatrixView<const S>& s, std::size_t begin,      \
                                    std::size_t end);                                     \
  template void squash_rows_backward(const NormOptions&, const AddNormBackward<S, B>&,    \
                                     const SquashSums<Arithmetic<S>>&, std::size_t begin, \
                                     std::size_t end);
ADDNORM_FOR_PAIRS(ADDNORM_INSTANTIATE)
#undef ADDNORM_INSTANTIATE

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
