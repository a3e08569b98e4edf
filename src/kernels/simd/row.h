/// The computations that every norm shares for one set of values: sums, statistics and the
/// effective γ. All sums run over 32 lanes and one fixed tree, so their bits depend only on the
/// values (docs/numerics.md).

#pragma once

#include <cmath>
#include <iterator>
#include <limits>
#include <span>

#include "addnorm/norm.h"
#include "kernels/simd/pack.h"
#include "kernels/statistics.h"
#include "kernels/storages.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

/// Returns the prefetch distance in bytes for at least `values` values. If rows have gaps, it is a
/// multiple of the stride, so that columns stay the same.
template <typename T>
std::ptrdiff_t prefetch_distance(const MatrixView<T>& matrix, std::size_t values) {
  if (matrix.cols > 0 && !matrix.contiguous()) {
    values = (values + matrix.cols - 1) / matrix.cols * matrix.stride;
  }
  return static_cast<std::ptrdiff_t>(values * sizeof(T));
}
/// Advances the pointer by `bytes`; the result may lie past the end.
template <typename T>
HWY_INLINE const T* ahead(const T* here, std::ptrdiff_t bytes) {
  return reinterpret_cast<const T*>(reinterpret_cast<std::uintptr_t>(here) +
                                    static_cast<std::uintptr_t>(bytes));
}

/// Prefetches step k of a pack, N values, into L1, line by line.
template <std::size_t N, typename T>
HWY_INLINE void prefetch(const T* from, std::size_t k) {
  if (k * N * sizeof(T) % 64 != 0) return;  // prefetched by an earlier step
  for (std::size_t line = 0; line < N * sizeof(T); line += 64) {
    __builtin_prefetch(reinterpret_cast<const char*>(from) + line, 0, 3);
  }
}

/// The sum of the blocks of one row, or of several rows. Blocks are added in order. In rows longer
/// than a stretch, the stretches are added with compensation for the rounding errors (Knuth's
/// two-sum). For shorter rows, the sum is a single register.
template <typename V, typename Sum = V>
class BlockSum {
 public:
  HWY_INLINE void start() { now_ = zero(); }
  /// Adds the block that ends at column `end`.
  HWY_INLINE void add(const Sum& block, std::size_t end) {
    now_ = now_ + block;
    if (HWY_UNLIKELY(end % kStretch == 0)) end_stretch(end);
  }
  /// Returns the sum of a row of `cols` values.
  HWY_INLINE Sum total(std::size_t cols) const {
    return HWY_LIKELY(cols <= kStretch - kBlock) ? now_ : total_of_stretches();
  }

 private:
  static HWY_INLINE Sum zero() {
    if constexpr (std::is_same_v<Sum, V>) {
      return 0;
    } else {
      return set<kRowGroup>(V{0});
    }
  }
  HWY_NOINLINE void end_stretch(std::size_t end) {
    if (end == kStretch) whole_ = lost_ = zero();
    const Sum before = whole_;
    whole_ = before + now_;
    const Sum added = whole_ - before;
    lost_ = lost_ + ((before - (whole_ - added)) + (now_ - added));
    now_ = zero();
  }
  HWY_NOINLINE Sum total_of_stretches() const {
    BlockSum all = *this;
    all.end_stretch(0);
    return all.whole_ + all.lost_;
  }

  Sum now_;           ///< of the current stretch
  Sum whole_, lost_;  ///< of the stretches before
};

/// Returns Σ value(i, count) for the packs of 0 … n − 1. A partial pack must have zeros at its end.
template <typename V, typename Value>
HWY_INLINE V sum(std::size_t n, const Value& value) {
  BlockSum<V> total;
  total.start();
  for (std::size_t begin = 0; begin < n; begin += kBlock) {
    Pack<V> lanes = set(V{0});
    for_each_pack(HWY_MIN(kBlock, n - begin), [&](std::size_t i, auto count) ADDNORM_BODY {
      lanes = lanes + value(begin + i, count);
    });
    total.add(tree_sum(lanes), begin + kBlock);
  }
  return total.total(n);
}

/// The values at `data`, as a source of packs.
template <typename T>
struct Memory {
  const T* data;

  template <typename Count>
  HWY_INLINE auto operator()(std::size_t i, Count count) const {
    return load(data + i, count);
  }
};

/// A set of values in blocks, with any source and storage type. Code that takes Blocks is compiled
/// once for all of them.
template <typename V>
struct Blocks {
  std::size_t size;

  explicit Blocks(std::size_t n) : size(n) {}
  /// Returns the values from `begin` on, a multiple of kBlock: kBlock of them, or the rest. Valid
  /// until the next block is requested.
  virtual const V* block(std::size_t begin) const = 0;

  /// Calls body(values, count, i) for each block: its values, their number, and the index of the
  /// first.
  template <typename Body>
  HWY_INLINE void for_each_block(const Body& body) const {
    for (std::size_t i = 0; i < size; i += kBlock) body(block(i), HWY_MIN(kBlock, size - i), i);
  }

 protected:
  ~Blocks() = default;
};

/// Blocks of values in memory.
template <typename V>
struct Values final : Blocks<V> {
  const V* data;

  Values(const V* values, std::size_t n) : Blocks<V>(n), data(values) {}
  const V* block(std::size_t begin) const override { return data + begin; }
};

/// Σd and Σd² of d = (x·scale − hi) − lo.
template <typename V>
struct Moments {
  V sum = 0;
  V squares = 0;
};
template <typename V>
HWY_NOINLINE Moments<V> moments(const Blocks<V>& blocks, V scale, V hi, V lo) {
  BlockSum<V> sum, all_squares;
  sum.start(), all_squares.start();
  blocks.for_each_block([&](const V* x, std::size_t n, std::size_t begin) ADDNORM_BODY {
    Pack<V> sums = set(V{0}), squares = set(V{0});
    for_each_pack(n, [&](std::size_t i, auto count) ADDNORM_BODY {
      const auto scaled = load(x + i, count) * set(scale);
      const auto d = keep((scaled - set(hi)) - set(lo), count);
      sums = sums + d;
      squares = squares + d * d;
    });
    sum.add(tree_sum(sums), begin + kBlock);
    all_squares.add(tree_sum(squares), begin + kBlock);
  });
  return {sum.total(blocks.size), all_squares.total(blocks.size)};
}

/// Returns the number of values in a set's head, its first values. Their mean is the shift, which
/// is subtracted from all values before they are summed.
template <typename V>
HWY_INLINE V head_size(std::size_t n) {
  return static_cast<V>(HWY_MIN(n, kPack));
}
template <typename V, typename Source>
HWY_INLINE Pack<V> head(std::size_t n, const Source& x) {
  return n < kPack ? x(0, Tail{n}) : x(0, Full());
}

/// One number for each row of a group.
template <typename V>
using Group = Pack<V, kRowGroup>;

/// Returns the means of the heads of rows of n values from their folded heads.
template <typename V>
HWY_INLINE Group<V> head_means(const Pack<V, 4> (&heads)[kRowGroup], std::size_t n) {
  if (n >= kPack) {  // same bits as the division, but faster
    return tree_sums(heads) * set<kRowGroup>(V{1} / V{kPack});
  }
  return tree_sums(heads) / set<kRowGroup>(head_size<V>(n));
}

/// Returns the head of a row that is one pack.
template <typename V, std::size_t N>
HWY_INLINE auto head(const Pack<V, N>& row) {
  if constexpr (N > kPack) {
    Pack<V, kPack> first;
    for (std::size_t k = 0; k < std::size(first.v); ++k) first.v[k] = row.v[k];
    return first;
  } else if constexpr (N == kPack) {
    return row;
  } else {
    return set<N>(V{0}) + row;  // as for a longer pack, whose values after these are 0
  }
}

/// Slow path: statistics of one row for which moments about the mean of its first values are not
/// precise enough. If squares would overflow or vanish, the values are scaled. If the shift is too
/// far from the mean, the mean of all values becomes the shift, and then, if necessary, that mean
/// in two parts.
template <typename V>
HWY_NOINLINE NormStatistics<V> careful_statistics(const NormOptions& options, const Blocks<V>& x) {
  Pack<V> maxima = set(V{0});
  x.for_each_block([&](const V* values, std::size_t n, std::size_t) ADDNORM_BODY {
    for_each_pack(n, [&](std::size_t i, auto count)
                         ADDNORM_BODY { maxima = max(maxima, abs(load(values + i, count))); });
  });
  const V inverse_count = V{1} / static_cast<V>(x.size);
  const V inverse_divisor = V{1} / variance_divisor<V>(options, x.size);
  NormStatistics<V> result;
  result.scale = safe_scale(largest(maxima), options);
  const V scale = result.scale;
  if (options.kind == NormKind::kRms) {
    const V squares = moments<V>(x, scale, 0, 0).squares;
    set_deviation(options, squares * inverse_divisor, result);
    return result;
  }
  V spread = 0;
  auto measure_from = [&](V hi, V lo) {
    const Moments<V> d = moments(x, scale, hi, lo);
    const V rest = d.sum * inverse_count;
    spread = d.squares - d.sum * rest;
    result.mean_hi = hi;
    result.mean_lo = lo + rest;
    return spread >= d.squares / 2;
  };
  const Pack<V> first = head<V>(x.size, Memory<V>{x.block(0)});
  const bool enough = measure_from(tree_sum(first * set(scale)) / head_size<V>(x.size), 0) ||
                      measure_from(moments<V>(x, scale, 0, 0).sum * inverse_count, 0);
  if (!enough) measure_from(result.mean_hi, result.mean_lo);
  set_deviation(options, spread * inverse_divisor, result);
  return result;
}

/// The statistics of a group of rows. They are written as packs and read one by one. A load can
/// take a recent value from the store buffer only if one store has written all of it; else it waits
/// until the stores have reached the cache.
template <typename V>
struct GroupStatistics {
  HWY_ALIGN V mean_hi[kRowGroup] = {};
  HWY_ALIGN V mean_lo[kRowGroup] = {};
  HWY_ALIGN V reciprocal[kRowGroup] = {};
  HWY_ALIGN V scale[kRowGroup] = {};
  HWY_ALIGN V variance[kRowGroup] = {};
  HWY_ALIGN V epsilon_ratio[kRowGroup] = {};

  HWY_INLINE NormStatistics<V> get(std::size_t g) const {
    return {mean_hi[g], mean_lo[g], reciprocal[g], scale[g], variance[g], epsilon_ratio[g]};
  }
  /// Writes the statistics of all rows, pack by pack if there are vectors: one by one takes twice
  /// the instructions.
  HWY_INLINE void get_all(NormStatistics<V>* to) const {
    if constexpr (Looped<V>) {
      for (std::size_t g = 0; g < kRowGroup; ++g) to[g] = get(g);
    } else {
      constexpr std::size_t kStride = sizeof(NormStatistics<V>) / sizeof(V);
      store_columns(of(mean_hi), of(mean_lo), of(reciprocal), of(scale), &to->mean_hi, kStride);
      store_columns(of(variance), of(epsilon_ratio), &to->variance, kStride);
    }
  }
  HWY_INLINE void put(std::size_t g, const NormStatistics<V>& s) {
    mean_hi[g] = s.mean_hi;
    mean_lo[g] = s.mean_lo;
    reciprocal[g] = s.reciprocal;
    scale[g] = s.scale;
    variance[g] = s.variance;
    epsilon_ratio[g] = s.epsilon_ratio;
  }

 private:
  HWY_INLINE static Group<V> of(const V (&values)[kRowGroup]) {
    return load<kRowGroup>(values, Full());
  }
};

/// The statistics of a norm over n values from the moments about `shift`: variance =
/// (Σd² − (Σd)²/n)/n and mean = shift + Σd/n.
template <typename V>
struct FromMoments {
  const NormOptions& options;
  V inverse_count;
  V inverse_divisor;
  V epsilon;
  V smallest;  ///< the least Σd² for which no square that matters has underflowed
  bool centred;

  FromMoments(const NormOptions& o, std::size_t n)
      : options(o),
        inverse_count(V{1} / static_cast<V>(n)),
        inverse_divisor(V{1} / variance_divisor<V>(o, n)),
        epsilon(static_cast<V>(o.epsilon)),
        smallest(epsilon_hides_underflow<V>(o) ? V{-1} : 1 / kLargest),
        centred(o.kind != NormKind::kRms) {}

  /// The largest Σd²: above it, a value may have overflowed.
  static constexpr V kLargest = std::numeric_limits<V>::max() / (sizeof(V) == 4 ? 0x1p28 : 0x1p224);

  /// Sets bit g if the moments of row g are not precise enough.
  HWY_INLINE unsigned operator()(const Group<V>& shift, const Group<V>& sum,
                                 const Group<V>& squares, GroupStatistics<V>& result) const {
    const Group<V> one = set<kRowGroup>(V{1});
    const Group<V> lo =  // not −0 for RMSNorm: that would turn −0 into 0
        centred ? sum * set<kRowGroup>(inverse_count) : set<kRowGroup>(V{0});
    const Group<V> spread = squares - sum * lo;
    const Group<V> variance = spread * set<kRowGroup>(inverse_divisor);
    Group<V> deviation;
    if (options.epsilon_at == EpsilonAt::kVariance) {
      deviation = sqrt(variance + set<kRowGroup>(epsilon));
      store(one, result.epsilon_ratio, Full());
    } else {
      const Group<V> root = sqrt(variance);
      deviation = root + set<kRowGroup>(epsilon);
      store(deviation / root, result.epsilon_ratio, Full());
      HWY_ALIGN V roots[kRowGroup];
      store(root, roots, Full());
      for (std::size_t g = 0; g < kRowGroup; ++g) {
        if (!(roots[g] > 0)) result.epsilon_ratio[g] = V{0};
      }
    }
    store(shift, result.mean_hi, Full());
    store(lo, result.mean_lo, Full());
    store(one / deviation, result.reciprocal, Full());
    store(one, result.scale, Full());
    store(variance, result.variance, Full());
    return ~(below(squares, set<kRowGroup>(kLargest)) & below(set<kRowGroup>(smallest), squares) &
             ~below(spread + spread, squares)) &
           ((1u << kRowGroup) - 1);
  }
};

/// Computes mean and deviation of at least one value.
template <typename V>
HWY_NOINLINE NormStatistics<V> statistics(const NormOptions& options, const Blocks<V>& x) {
  const FromMoments<V> from_moments(options, x.size);
  V shift = 0;
  if (from_moments.centred) {
    shift = tree_sum(head<V>(x.size, Memory<V>{x.block(0)})) / head_size<V>(x.size);
  }
  const Moments<V> d = moments(x, V{1}, shift, V{0});
  GroupStatistics<V> result;
  const unsigned unclear =
      from_moments(set<kRowGroup>(shift), set<kRowGroup>(d.sum), set<kRowGroup>(d.squares), result);
  return unclear == 0 ? result.get(0) : careful_statistics(options, x);
}

/// Computes x̂ of a norm. `kScaled` may be false if the scale is 1, as for all rows except very
/// large and very small ones.
template <typename V, std::size_t N = kPack, bool kScaled = true>
struct Normalize {
  Broadcast<V, N> scale, minus_hi, lo, reciprocal;

  HWY_INLINE explicit Normalize(const NormStatistics<V>& s)
      : scale(s.scale), minus_hi(-s.mean_hi), lo(s.mean_lo), reciprocal(s.reciprocal) {}
  HWY_INLINE Normalize(const GroupStatistics<V>& s, std::size_t g) : Normalize(s.get(g)) {}
  /// x − hi
  HWY_INLINE Pack<V, N> from_hi(const Pack<V, N>& x) const {
    if constexpr (kScaled) {
      return x * scale + minus_hi;
    } else {
      return x + minus_hi;  // a sum, unlike a difference, can take x from memory
    }
  }
  /// x̂ of x − hi
  HWY_INLINE Pack<V, N> finish(const Pack<V, N>& x_from_hi) const {
    return (x_from_hi - lo) * reciprocal;
  }
  HWY_INLINE Pack<V, N> operator()(const Pack<V, N>& x) const { return finish(from_hi(x)); }
};

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
