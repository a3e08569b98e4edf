/// The computations of lanes, forward and backward, on a block of columns of one row.

#pragma once

#include "kernels/lanes.h"
#include "kernels/simd/dropout.h"
#include "kernels/simd/row.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

/// The lanes of one row, from some column on. Lane i begins at data + i·stride.
template <typename T>
struct Lanes {
  T* data = nullptr;
  std::size_t stride = 0;

  HWY_INLINE T* operator[](std::size_t lane) const { return data + lane * stride; }
};
template <typename T>
HWY_INLINE Lanes<T> lanes_at(const LanesView<T>& view, std::size_t row, std::size_t column) {
  if (view.empty()) return {};
  return {view.data + row * view.row_stride + column, view.lane_stride};
}

/// Returns the numbers of a mix for one row. A mix with a single row applies to all rows.
template <typename V>
HWY_INLINE V* mix_of_row(const MatrixView<V>& mix, std::size_t row) {
  return mix.empty() ? nullptr : mix.row(mix.rows == 1 ? 0 : row).data();
}

/// Calls body(i) for i < kCount, in an unrolled loop, or for i < `count` if kCount is 0.
template <std::size_t kCount, typename Body>
HWY_INLINE void for_each_lane(std::size_t count, const Body& body) {
  if constexpr (kCount > 0) {
    ADDNORM_UNROLL for (std::size_t i = 0; i < kCount; ++i) body(i);
  } else {
    for (std::size_t i = 0; i < count; ++i) body(i);
  }
}
/// sum += Σ factors[i·stride]·packs[i], in order.
template <std::size_t kCount, typename V, std::size_t N>
HWY_INLINE void add_products(Pack<V, N>& sum, const V* factors, std::size_t stride,
                             const Pack<V, N>* packs, std::size_t count) {
  for_each_lane<kCount>(count, [&](std::size_t i) ADDNORM_BODY {
    sum = sum + packs[i] * Broadcast<V, N>(factors[i * stride]);
  });
}
/// Returns Σ factors[i·stride]·packs[i], in order, of at least one product.
template <std::size_t kCount, typename V, std::size_t N>
HWY_INLINE Pack<V, N> products(const V* factors, std::size_t stride, const Pack<V, N>* packs,
                               std::size_t count) {
  Pack<V, N> sum = packs[0] * Broadcast<V, N>(factors[0]);
  add_products<(kCount > 0 ? kCount - 1 : 0)>(sum, factors + stride, stride, packs + 1, count - 1);
  return sum;
}

/// The inputs of the mixes A, B and R for one block of a row.
template <typename S, typename B>
struct LaneBlock {
  using V = Arithmetic<S>;

  LaneCounts counts;
  const V* carry;  ///< null: A = I
  const V* write;
  const V* read;
  Lanes<const S> x;
  Lanes<const B> branch;
  const V* factors;  ///< dropout's factors, or null
};

/// The common case has specialized loops with lanes in registers: kUsualLanes of x and of X′ with a
/// carry, one branch without dropout, and one read.
inline constexpr std::size_t kUsualLanes = 4;
template <typename S, typename B>
inline constexpr bool kHasUsualLoops = kSpecialized<S, B> && !std::is_same_v<B, Float16>;
template <typename S, typename B>
bool is_usual(const LaneBlock<S, B>& block) {
  const LaneCounts& counts = block.counts;
  return counts.x == kUsualLanes && counts.made == kUsualLanes && counts.branch == 1 &&
         counts.reads == 1 && block.carry != nullptr && block.factors == nullptr;
}
/// The number of columns in one step, which processes all lanes.
template <std::size_t kLanes, typename S, typename B>
inline constexpr std::size_t kLaneStep = kLanes == 0 ? kPack : HWY_MAX((kStep<S, B>), kPack);

/// Writes X′ = A·X + B·dropout(F) to `sum`, unless it is null, and R·X′ to `z`.
template <std::size_t kLanes, typename S, typename B>
HWY_NOINLINE void mix(const LaneBlock<S, B>& block, std::size_t columns, const Lanes<S>& sum_lanes,
                      Stores stores, const Lanes<Arithmetic<S>>& z_lanes) {
  using V = Arithmetic<S>;
  constexpr std::size_t N = kLaneStep<kLanes, S, B>;
  constexpr std::size_t kMost = kLanes > 0 ? kLanes : kMostLanes;
  constexpr std::size_t kOne = kLanes > 0 ? 1 : 0;
  // Local copies: the compiler must assume that stores change the caller's objects.
  const LaneBlock<S, B> b = block;
  const LaneCounts counts = b.counts;
  const Lanes<S> sum = sum_lanes;
  const Lanes<V> z = z_lanes;
  const bool streams = stores == Stores::kNonTemporal;
  for_each_step<N>(columns, [&](std::size_t i, std::size_t, auto count) ADDNORM_BODY {
    Pack<V, N> x[kMost], f[kOne > 0 ? 1 : kMostLanes], made[kMost];
    for_each_lane<kLanes>(counts.x,
                          [&](std::size_t j) ADDNORM_BODY { x[j] = load<N>(b.x[j] + i, count); });
    for_each_lane<kOne>(counts.branch, [&](std::size_t j) ADDNORM_BODY {
      f[j] = load<N>(b.branch[j] + i, count);
      if (kLanes == 0 && b.factors != nullptr) f[j] = load<N>(b.factors + i, count) * f[j];
    });
    for_each_lane<kLanes>(counts.made, [&](std::size_t p) ADDNORM_BODY {
      Pack<V, N> s = x[kLanes == 0 && b.carry == nullptr ? p : 0];
      if (kLanes > 0 || b.carry != nullptr) {
        s = products<kLanes>(b.carry + p * counts.x, 1, x, counts.x);
      }
      add_products<kOne>(s, b.write + p * counts.branch, 1, f, counts.branch);
      const Stored<S, N> stored = rounded<S>(s, count);
      if (sum.data != nullptr) {
        if (streams) {
          store<Stores::kNonTemporal>(stored, sum[p] + i, count);
        } else {
          store(stored, sum[p] + i, count);
        }
      }
      made[p] = value_of(stored);
    });
    for_each_lane<kOne>(counts.reads, [&](std::size_t k) ADDNORM_BODY {
      const Pack<V, N> z_here = products<kLanes>(b.read + k * counts.made, 1, made, counts.made);
      store(z_here, z[k] + i, count);
    });
  });
}

/// z = R·X for any number of lanes in memory. It reads a few lanes at a time, because hardware
/// prefetchers cannot follow many.
template <typename S, typename V>
HWY_NOINLINE void read_lanes(const Lanes<const S>& x, std::size_t lanes, const V* read,
                             std::size_t columns, V* z) {
  constexpr std::size_t kTogether = 8;
  for (std::size_t first = 0; first < lanes; first += kTogether) {
    const std::size_t count_here = HWY_MIN(kTogether, lanes - first);
    for_each_pack(columns, [&](std::size_t i, auto count) ADDNORM_BODY {
      Pack<V> sum = first == 0 ? set(V{-0.0F}) : load(z + i, count);
      for (std::size_t p = first; p < first + count_here; ++p) {
        sum = sum + load(x[p] + i, count) * Broadcast<V>(read[p]);
      }
      store(sum, z + i, count);
    });
  }
}

/// The blocks of the rows of a call.
template <typename S, typename B>
class LaneRows {
 public:
  using V = Arithmetic<S>;

  // A copy, because the compiler must assume that stores change the caller's object.
  const LanesForward<S, B> args;
  const LaneCounts counts;

  /// `factors` holds kBlock + kPack values.
  LaneRows(const LanesForward<S, B>& arguments, V* factors)
      : args(arguments), counts(args), factors_(factors) {}

  /// Returns columns begin … begin + n − 1 of row r, at most kBlock. Valid until the next block is
  /// computed.
  HWY_INLINE LaneBlock<S, B> block(std::size_t r, std::size_t begin, std::size_t n) const {
    const V* factors = nullptr;
    if (counts.branch > 0 && args.dropout.active()) {
      dropout_factors(args.dropout, r * args.x.features + begin, n, factors_);
      factors = factors_;
    }
    return {counts,
            mix_of_row(args.carry, r),
            mix_of_row(args.write, r),
            mix_of_row(args.read, r),
            lanes_at(args.x, r, begin),
            lanes_at(args.branch, r, begin),
            factors};
  }

  /// Writes X′ of a block to `sum`, unless `sum` is null or X′ is x itself, and R·X′ to z.
  void make(const LaneBlock<S, B>& block, std::size_t columns, const Lanes<S>& sum, Stores stores,
            const Lanes<V>& z) const {
    if (!counts.mixes) return read(block, columns, block.x, z);
    if constexpr (kHasUsualLoops<S, B>) {
      if (is_usual(block)) return mix<kUsualLanes>(block, columns, sum, stores, z);
    }
    mix<0>(block, columns, sum, stores, z);
  }
  /// Writes R·X′ of a block to z, from X′ in memory.
  void read(const LaneBlock<S, B>& block, std::size_t columns, const Lanes<const S>& made,
            const Lanes<V>& z) const {
    for (std::size_t k = 0; k < counts.reads; ++k) {
      read_lanes(made, counts.made, block.read + k * counts.made, columns, z[k]);
    }
  }

 private:
  V* factors_;
};

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
