/// What every norm does with one set of values: sums over it, its statistics, γ's meaning. All sums
/// run over 32 lanes and one fixed tree, so their bits depend on nothing but the values
/// (docs/numerics.md). Included once for each instruction set.

#if defined(ADDNORM_KERNELS_ROW_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ADDNORM_KERNELS_ROW_INL_H
#undef ADDNORM_KERNELS_ROW_INL_H
#else
#define ADDNORM_KERNELS_ROW_INL_H
#endif

#include <cmath>
#include <limits>
#include <span>

#include "addnorm/norm.h"
#include "kernels/pack-inl.h"
#include "kernels/statistics.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm {
namespace HWY_NAMESPACE {

/// Longer rows are summed in blocks of so many values, so that an error does not grow with length.
inline constexpr std::size_t kBlock = 1024;

/// Two sums that run side by side, over the even packs and the odd ones.
template <typename V>
struct Lanes {
  Pack<V> part[2];

  HWY_INLINE Lanes() : part{set(V{0}), set(V{0})} {}
  HWY_INLINE void add(std::size_t parity, const Pack<V>& p) { part[parity] = part[parity] + p; }
  HWY_INLINE Pack<V> total() const { return part[0] + part[1]; }
};

template <typename V>
HWY_INLINE V tree_sum(const Pack<V>& p) {
  const Pack<V> one[1] = {p};
  V sum[1];
  tree_sums(one, sum);
  return sum[0];
}

/// Σ value(i, count) for the packs of 0 … n − 1; a pack that is not whole must have zeros at its
/// end.
template <typename V, typename Value>
HWY_INLINE V sum(std::size_t n, const Value& value) {
  V total = 0;
  for (std::size_t begin = 0; begin < n; begin += kBlock) {
    Lanes<V> lanes;
    for_each_pack(HWY_MIN(kBlock, n - begin),
                  [&](auto parity, std::size_t i, auto count)
                      ADDNORM_BODY { lanes.add(parity, value(begin + i, count)); });
    total += tree_sum(lanes.total());
  }
  return total;
}

/// The values at `data`, for functions that take any source of packs.
template <typename T>
struct Memory {
  const T* data;

  template <typename Count>
  HWY_INLINE auto operator()(std::size_t i, Count count) const {
    return load(data + i, count);
  }
};

/// Σd and Σd² of d = (x·scale − hi) − lo.
template <typename V>
struct Moments {
  V sum = 0;
  V squares = 0;
};
template <typename V, typename Source>
HWY_INLINE Moments<V> moments(std::size_t n, const Source& x, V scale, V hi, V lo) {
  Moments<V> total;
  for (std::size_t begin = 0; begin < n; begin += kBlock) {
    Lanes<V> sums, squares;
    for_each_pack(HWY_MIN(kBlock, n - begin),
                  [&](auto parity, std::size_t i, auto count) ADDNORM_BODY {
                    const auto scaled = x(begin + i, count) * set(scale);
                    const auto d = keep((scaled - set(hi)) - set(lo), count);
                    sums.add(parity, d);
                    squares.add(parity, d * d);
                  });
    total.sum += tree_sum(sums.total());
    total.squares += tree_sum(squares.total());
  }
  return total;
}

/// The mean of the first values of a set is what the others are measured from.
template <typename V>
HWY_INLINE V head_size(std::size_t n) {
  return static_cast<V>(HWY_MIN(n, kPack));
}
template <typename V, typename Source>
HWY_INLINE Pack<V> head(std::size_t n, const Source& x) {
  return n < kPack ? x(0, Part{n}) : x(0, Whole());
}

/// Statistics without haste, for rows where one pass about the mean of the first values does not
/// do: their squares overflow or vanish, so they must be scaled; or they differ less than that mean
/// was off, so it takes the mean of all, and where that is off too, a better one.
template <typename V, typename Source>
HWY_NOINLINE NormStatistics<V> careful_statistics(const NormOptions& options, std::size_t n,
                                                  const Source& x) {
  Pack<V> maxima = set(V{0});
  for_each_pack(n, [&](auto, std::size_t i, auto count)
                       ADDNORM_BODY { maxima = max(maxima, abs(x(i, count))); });
  HWY_ALIGN V largest[kPack];
  store(maxima, largest, Whole());
  for (std::size_t l = 1; l < kPack; ++l) largest[0] = HWY_MAX(largest[0], largest[l]);

  const V inverse_count = V{1} / static_cast<V>(n);
  const V inverse_divisor = V{1} / variance_divisor<V>(options, n);
  NormStatistics<V> result;
  result.scale = safe_scale(largest[0], options.epsilon);
  const V scale = result.scale;
  if (options.kind == NormKind::kRms) {
    const V squares = moments<V>(n, x, scale, 0, 0).squares;
    set_deviation(options, squares * inverse_divisor, result);
    return result;
  }
  V spread = 0;
  auto measure_from = [&](V hi, V lo) ADDNORM_BODY {
    const Moments<V> d = moments<V>(n, x, scale, hi, lo);
    const V rest = d.sum * inverse_count;
    spread = d.squares - d.sum * rest;
    result.mean_hi = hi;
    result.mean_lo = lo + rest;
    return spread >= d.squares / 2;
  };
  const bool enough = measure_from(tree_sum(head<V>(n, x) * set(scale)) / head_size<V>(n), 0) ||
                      measure_from(sum<V>(n, [&](std::size_t i, auto part)
                                                 ADDNORM_BODY { return x(i, part) * set(scale); }) *
                                       inverse_count,
                                   0);
  if (!enough) measure_from(result.mean_hi, result.mean_lo);
  set_deviation(options, spread * inverse_divisor, result);
  return result;
}

/// The statistics of a norm over n values from the moments about `shift`: variance =
/// (Σd² − (Σd)²/n)/n and mean = shift + Σd/n.
template <typename V>
struct FromMoments {
  const NormOptions& options;
  V inverse_count;
  V inverse_divisor;
  V epsilon;
  V smallest;  ///< of Σd²: below, something may have vanished that matters
  bool centred;

  FromMoments(const NormOptions& o, std::size_t n)
      : options(o),
        inverse_count(V{1} / static_cast<V>(n)),
        inverse_divisor(V{1} / variance_divisor<V>(o, n)),
        epsilon(static_cast<V>(o.epsilon)),
        smallest(o.epsilon > 0 ? V{-1} : 1 / kLargest),
        centred(o.kind != NormKind::kRms) {}

  /// of Σd²: above, something may have overflowed
  static constexpr V kLargest = std::numeric_limits<V>::max() / (sizeof(V) == 4 ? 0x1p28 : 0x1p224);

  /// For kRows sets at once. False where the moments of one do not say enough.
  template <std::size_t kRows>
  HWY_NOINLINE bool operator()(const V (&shift)[kRows], const V (&sum)[kRows],
                               const V (&squares)[kRows],
                               NormStatistics<V> (&result)[kRows]) const {
    V lo[kRows], spread[kRows], variance[kRows], deviation[kRows], reciprocal[kRows];
    V ratio[kRows];
    bool enough = true;
    for (std::size_t r = 0; r < kRows; ++r) {
      lo[r] = centred ? sum[r] * inverse_count : V{0};
      spread[r] = squares[r] - sum[r] * lo[r];
      enough &= squares[r] < kLargest && squares[r] > smallest && spread[r] >= squares[r] / 2;
    }
    for (std::size_t r = 0; r < kRows; ++r) variance[r] = spread[r] * inverse_divisor;
    if (options.epsilon_at == EpsilonAt::kVariance) {
      for (std::size_t r = 0; r < kRows; ++r) {
        deviation[r] = std::sqrt(variance[r] + epsilon);
        ratio[r] = 1;
      }
    } else {
      for (std::size_t r = 0; r < kRows; ++r) {
        const V root = std::sqrt(variance[r]);
        deviation[r] = root + epsilon;
        ratio[r] = root > 0 ? deviation[r] / root : V{0};
      }
    }
    for (std::size_t r = 0; r < kRows; ++r) reciprocal[r] = V{1} / deviation[r];
    for (std::size_t r = 0; r < kRows; ++r) {
      result[r] = {shift[r], lo[r], reciprocal[r], V{1}, variance[r], ratio[r]};
    }
    return enough;
  }
};

/// Mean and deviation of n ≥ 1 values.
template <typename V, typename Source>
HWY_INLINE NormStatistics<V> statistics(const NormOptions& options, std::size_t n,
                                        const Source& x) {
  const FromMoments<V> from_moments(options, n);
  V shift[1] = {0};
  if (from_moments.centred) shift[0] = tree_sum(head<V>(n, x)) / head_size<V>(n);
  const Moments<V> d = moments<V>(n, x, V{1}, shift[0], V{0});
  NormStatistics<V> result[1];
  if (!from_moments(shift, {d.sum}, {d.squares}, result))
    return careful_statistics<V>(options, n, x);
  return result[0];
}

/// x̂ of a norm.
template <typename V>
struct Normalize {
  Pack<V> scale, hi, lo, reciprocal;

  HWY_INLINE explicit Normalize(const NormStatistics<V>& s)
      : scale(set(s.scale)),
        hi(set(s.mean_hi)),
        lo(set(s.mean_lo)),
        reciprocal(set(s.reciprocal)) {}
  HWY_INLINE Pack<V> operator()(const Pack<V>& x) const {
    return ((x * scale - hi) - lo) * reciprocal;
  }
};

/// effective_gamma() of the features from i on; an empty γ stands for 1.
template <typename V>
struct GammaPacks {
  const NormOptions& options;
  std::span<const V> gamma;

  template <typename Count>
  HWY_INLINE Pack<V> operator()(std::size_t i, Count count) const {
    const Pack<V> output_scale = set(static_cast<V>(options.output_scale));
    if (gamma.empty()) return output_scale;
    Pack<V> g = load(gamma.data() + i, count);
    if (options.gamma_form == GammaForm::kOnePlus) g = set(V{1}) + g;
    return g * output_scale;
  }
  /// Whether it is just γ.
  bool plain() const {
    return !gamma.empty() && options.gamma_form == GammaForm::kPlain && options.output_scale == 1;
  }
};

/// What the gradient of one set's values needs beside each of them, with g = γ·dy:
/// dx = ((g − shift) − mean − x̂·projection)/deviation.
template <typename V>
struct RowSums {
  V shift = 0;       ///< the mean of the first values of g, or 0 where the norm does not centre
  V mean = 0;        ///< of g − shift
  V projection = 0;  ///< Σ(g − shift)·x̂ ÷ the variance's divisor, where Σx̂ is 0
};

}  // namespace HWY_NAMESPACE
}  // namespace addnorm
HWY_AFTER_NAMESPACE();

#endif  // the guard for each instruction set
