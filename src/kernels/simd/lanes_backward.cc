#include "kernels/feature_vector.h"
#include "kernels/lanes.h"
#include "kernels/plan.h"
#include "kernels/simd/gradient.h"
#include "kernels/simd/lanes_loops.h"
#include "kernels/thread_memory.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

// With a norm, a first pass over the row computes Σg and Σg·x̂. It keeps X′ and z if they fit into
// the thread's memory. The second pass processes one tile of columns after the other. It computes
// dz from z and dy, G from dz and d_sum, and dx and d_branch from G. It also sums the gradients of
// the mixes, as products of these values while they are in L1.

/// The inputs and outputs of spread() for one tile.
template <typename S, typename B>
struct GradientBlock {
  using V = Arithmetic<S>;

  std::size_t lanes;  ///< number of lanes of G computed together: all, or some if A = I
  Lanes<const S> d_sum;
  Lanes<const V> dz;
  Lanes<V> g;
  Lanes<S> dx;
  Lanes<B> d_branch;
};

/// G = d_sum + Rᵀ·dz, dX = Aᵀ·G, dF = mask ⊙ Bᵀ·G.
template <std::size_t kLanes, typename S, typename B>
HWY_NOINLINE void spread(const LaneBlock<S, B>& block, const GradientBlock<S, B>& gradient,
                         std::size_t columns, Stores stores) {
  using V = Arithmetic<S>;
  constexpr std::size_t N = kLaneStep<kLanes, S, B>;
  constexpr std::size_t kMost = kLanes > 0 ? kLanes : kMostLanes;
  constexpr std::size_t kOne = kLanes > 0 ? 1 : 0;
  // Local copies: the compiler must assume that stores change the caller's objects.
  const LaneBlock<S, B> b = block;
  const GradientBlock<S, B> to = gradient;
  const LaneCounts counts = b.counts;
  // Memory bandwidth limits only the loop with a fixed number of lanes; the general one is limited
  // by arithmetic.
  const bool streams = kLanes > 0 && stores == Stores::kNonTemporal;
  const auto put = [&](const Pack<V, N>& value, auto* at, auto count) ADDNORM_BODY {
    if (streams) {
      store<Stores::kNonTemporal>(value, at, count);
    } else {
      store(value, at, count);
    }
  };
  for_each_step<N>(columns, [&](std::size_t i, std::size_t, auto count) ADDNORM_BODY {
    Pack<V, N> dz[kOne > 0 ? 1 : kMostLanes], g[kMost];
    for_each_lane<kOne>(counts.reads,
                        [&](std::size_t k) ADDNORM_BODY { dz[k] = load<N>(to.dz[k] + i, count); });
    for_each_lane<kLanes>(to.lanes, [&](std::size_t p) ADDNORM_BODY {
      // Adding −0 changes no bit.
      g[p] = to.d_sum.data == nullptr ? set<N>(V{-0.0F}) : load<N>(to.d_sum[p] + i, count);
      add_products<kOne>(g[p], b.read + p, counts.made, dz, counts.reads);
      store(g[p], to.g[p] + i, count);
    });
    const bool carries = kLanes > 0 || b.carry != nullptr;
    for_each_lane<kLanes>(carries ? counts.x : to.lanes, [&](std::size_t j) ADDNORM_BODY {
      put(carries ? products<kLanes>(b.carry + j, counts.x, g, counts.made) : g[j], to.dx[j] + i,
          count);
    });
    if (to.d_branch.data == nullptr) return;
    for_each_lane<kOne>(counts.branch, [&](std::size_t j) ADDNORM_BODY {
      Pack<V, N> f = products<kLanes>(b.write + j, counts.branch, g, counts.made);
      if (kLanes == 0 && b.factors != nullptr) f = load<N>(b.factors + i, count) * f;
      put(f, to.d_branch[j] + i, count);
    });
  });
}

/// The number of dot products with one lane that a loop computes together. The number of registers
/// limits it.
inline constexpr std::size_t kDots = kMasks ? 4 : 2;

/// to[p·stride] += Σ over columns of a·b[p].
template <typename T, typename U, typename V>
HWY_NOINLINE void add_dots(const T* a, const Lanes<U>& b, std::size_t lanes, std::size_t columns,
                           V* to, std::size_t stride) {
  for (std::size_t first = 0; first < lanes; first += kDots) {
    const std::size_t count_here = HWY_MIN(kDots, lanes - first);
    Pack<V> sums[kDots];
    const U* from[kDots];
    for (std::size_t p = 0; p < kDots; ++p) {
      sums[p] = set(V{0});
      from[p] = b[first + HWY_MIN(p, count_here - 1)];
    }
    for_each_pack(columns, [&](std::size_t i, auto count) ADDNORM_BODY {
      const Pack<V> value = load(a + i, count);
      ADDNORM_UNROLL for (std::size_t p = 0; p < kDots; ++p) {
        sums[p] = sums[p] + value * load(from[p] + i, count);
      }
    });
    for (std::size_t p = 0; p < count_here; ++p) to[(first + p) * stride] += tree_sum(sums[p]);
  }
}

template <typename S, typename B>
class LaneBackwardLoops {
 public:
  using V = Arithmetic<S>;

  LaneBackwardLoops(const LanesBackward<S, B>& args, const Plan& plan, const LaneSums<V>& sums)
      : args_(args),
        sums_(sums),
        rows_(args.forward, thread_region<V>(4)),
        counts_(rows_.counts),
        cols_(args.forward.x.features),
        keeps_z_(args.forward.norm && cols_ <= kStagedFeatures<V>),
        keeps_made_(keeps_z_ && cols_ * counts_.made <= kStagedFeatures<S>),
        stores_(plan.stores),
        options_(args.forward.norm.value_or(NormOptions())),
        z_(thread_region<V>(0)),
        made_(thread_region<S>(1)),
        gamma_(FeatureVector<V>::gamma(options_, args.forward.gamma)),
        g_{thread_region<V>(3), kLaneTile},
        dz_{g_[kMostLanes], kLaneTile},
        dropped_(thread_region<V>(4) + kBlock + kPack) {
    gamma_.stage(thread_region<V>(2), cols_, false);
  }

  void run(std::size_t begin, std::size_t end) const {
    clear(sums_.gamma, cols_);
    clear(sums_.beta, cols_);
    clear(sums_.carry, counts_.carry());
    clear(sums_.write, counts_.write());
    clear(sums_.read, counts_.read());
    for (std::size_t r = begin; r < end; ++r) {
      const Row row{r, of_row(args_.d_carry, sums_.carry, r), of_row(args_.d_write, sums_.write, r),
                    of_row(args_.d_read, sums_.read, r),
                    args_.forward.norm ? sum_row(r) : NormGradient<V>()};
      for (std::size_t begin_tile = 0; begin_tile < cols_; begin_tile += kLaneTile) {
        spread_tile(row, begin_tile, HWY_MIN(kLaneTile, cols_ - begin_tile));
      }
    }
  }

 private:
  struct Row {
    std::size_t r;
    V *d_carry, *d_write, *d_read;  ///< null: not wanted
    NormGradient<V> norm;
  };

  static void clear(V* sums, std::size_t count) {
    if (sums != nullptr) std::fill_n(sums, count, V{0});
  }
  /// Returns the memory to which row r adds its gradient of a mix: `sums` if the mix is the same
  /// for all rows, else the row's part of `gradient`.
  V* of_row(const MatrixView<V>& gradient, V* sums, std::size_t r) const {
    if (sums != nullptr || gradient.empty()) return sums;
    V* const to = gradient.row(r).data();
    if (args_.parameter_gradients == GradientMode::kOverwrite) clear(to, gradient.cols);
    return to;
  }

  /// Returns the memory for X′ from column `begin` on.
  Lanes<S> made_at(std::size_t begin) const {
    return keeps_made_ ? Lanes<S>{made_ + begin, cols_} : Lanes<S>{made_, kLaneTile};
  }
  V* z_at(std::size_t begin) const { return z_ + (keeps_z_ ? begin : begin % kBlock); }
  /// Computes z of a tile, and writes its X′ if `keeps` is true.
  void make(const LaneBlock<S, B>& block, std::size_t begin, std::size_t n, bool keeps) const {
    rows_.make(block, n, keeps ? made_at(begin) : Lanes<S>(), Stores::kCached,
               {z_at(begin), kLaneTile});
  }

  /// Computes the sums over a row that the norm's gradient needs.
  NormGradient<V> sum_row(std::size_t r) const {
    const NormStatistics<V>& statistics = args_.forward.statistics[r];
    const bool centred = options_.kind != NormKind::kRms;
    NormGradient<V> result;
    if (centred) {
      const V* const gamma = gamma_.at(0, HWY_MIN(kBlock, cols_));
      result.shift = gradient_shift<V>(cols_, [&](auto count) ADDNORM_BODY {
        return load<kGradientHead>(lanes_at(args_.dy, r, 0).data, count) *
               load<kGradientHead>(gamma, count);
      });
    }
    BlockSum<V> sum, projection;
    sum.start(), projection.start();
    for (std::size_t begin = 0; begin < cols_; begin += kBlock) {
      const std::size_t n = HWY_MIN(kBlock, cols_ - begin);
      for (std::size_t tile = 0; tile < n; tile += kLaneTile) {
        const std::size_t in_tile = HWY_MIN(kLaneTile, n - tile);
        make(rows_.block(r, begin + tile, in_tile), begin + tile, in_tile, keeps_made_);
      }
      sum_block(Normalize<V>(statistics), r, begin, n, result.shift, sum, projection);
    }
    result.finish(statistics, centred, sum.total(cols_) * (V{1} / static_cast<V>(cols_)),
                  projection.total(cols_) * (V{1} / variance_divisor<V>(options_, cols_)));
    return result;
  }
  HWY_NOINLINE void sum_block(const Normalize<V>& normalize, std::size_t r, std::size_t begin,
                              std::size_t n, V shift, BlockSum<V>& sum,
                              BlockSum<V>& projection) const {
    const V* const z = z_at(begin);
    const V* const gamma = gamma_.at(begin, n);
    const B* const dy = lanes_at(args_.dy, r, begin).data;
    V* const d_gamma = sums_.gamma == nullptr ? nullptr : sums_.gamma + begin;
    V* const d_beta = sums_.beta == nullptr ? nullptr : sums_.beta + begin;
    auto sums = GradientSums<V, kPack>::zero();
    for_each_pack(n, [&](std::size_t i, auto count) ADDNORM_BODY {
      const Pack<V> dy_here = load(dy + i, count);
      const Pack<V> x_hat = normalize(load(z + i, count));
      const Pack<V> g = dy_here * load(gamma + i, count) - set(shift);
      sums.template add<true>(g, x_hat, count);
      if (d_gamma != nullptr) {
        store(load(d_gamma + i, count) + dy_here * x_hat, d_gamma + i, count);
      }
      if (d_beta != nullptr) store(load(d_beta + i, count) + dy_here, d_beta + i, count);
    });
    sum.add(tree_sum(sums.sum), begin + kBlock);
    projection.add(tree_sum(sums.projected), begin + kBlock);
  }

  void spread_tile(const Row& row, std::size_t begin, std::size_t n) const {
    const LaneBlock<S, B> block = rows_.block(row.r, begin, n);
    const bool needs_made = row.d_read != nullptr && counts_.mixes && !keeps_made_;
    const bool needs_z = args_.forward.norm && !keeps_z_;
    if (needs_made || needs_z) make(block, begin, n, needs_made);
    make_dz(row, begin, n);
    for (std::size_t first = 0; first < counts_.made; first += kMostLanes) {
      spread_lanes(row, block, begin, n, first, HWY_MIN(kMostLanes, counts_.made - first));
    }
  }
  /// Computes the gradients of a tile for lanes first … first + lanes − 1. These are all lanes,
  /// unless x is only read and has more than kMostLanes.
  void spread_lanes(const Row& row, LaneBlock<S, B> block, std::size_t begin, std::size_t n,
                    std::size_t first, std::size_t lanes) const {
    const auto from_first = [&](auto of) {
      if (of.data != nullptr) of.data += first * of.stride;
      return of;
    };
    if (block.read != nullptr) block.read += first;
    spread_through(block,
                   {lanes,
                    from_first(lanes_at(args_.d_sum, row.r, begin)),
                    {dz_.data, dz_.stride},
                    g_,
                    from_first(lanes_at(args_.dx, row.r, begin)),
                    lanes_at(args_.d_branch, row.r, begin)},
                   n);
    for (std::size_t j = 0; row.d_carry != nullptr && j < counts_.x; ++j) {
      add_dots(block.x[j], g_, lanes, n, row.d_carry + j, counts_.x);
    }
    for (std::size_t j = 0; row.d_write != nullptr && j < counts_.branch; ++j) {
      if (block.factors != nullptr) {
        drop(block, n);
        add_dots(dropped_, g_, lanes, n, row.d_write, 1);
      } else {
        add_dots(block.branch[j], g_, lanes, n, row.d_write + j, counts_.branch);
      }
    }
    const Lanes<S> kept = made_at(begin);
    const auto made = counts_.mixes ? Lanes<const S>{kept.data, kept.stride} : from_first(block.x);
    for (std::size_t k = 0; row.d_read != nullptr && k < counts_.reads; ++k) {
      add_dots(dz_[k], made, lanes, n, row.d_read + k * counts_.made + first, 1);
    }
  }
  void spread_through(const LaneBlock<S, B>& block, const GradientBlock<S, B>& gradient,
                      std::size_t n) const {
    if constexpr (kHasUsualLoops<S, B>) {
      if (is_usual(block)) return spread<kUsualLanes>(block, gradient, n, stores_);
    }
    spread<0>(block, gradient, n, stores_);
  }
  HWY_NOINLINE void make_dz(const Row& row, std::size_t begin, std::size_t n) const {
    const Lanes<const B> dy = lanes_at(args_.dy, row.r, begin);
    for (std::size_t k = 0; !args_.forward.norm && k < counts_.reads; ++k) {
      for_each_pack(n, [&](std::size_t i, auto count)
                           ADDNORM_BODY { store(load(dy[k] + i, count), dz_[k] + i, count); });
    }
    if (!args_.forward.norm) return;
    const NormDerivative<V> derivative(args_.forward.statistics[row.r], row.norm);
    const V* const z = z_at(begin);
    const V* const gamma = gamma_.at(begin, n);
    for_each_pack(n, [&](std::size_t i, auto count) ADDNORM_BODY {
      const Pack<V> g = load(dy[0] + i, count) * load(gamma + i, count);
      store(derivative(g, load(z + i, count)), dz_[0] + i, count);
    });
  }
  /// Computes dropout(F) of a tile.
  HWY_NOINLINE void drop(const LaneBlock<S, B>& block, std::size_t n) const {
    for_each_pack(n, [&](std::size_t i, auto count) ADDNORM_BODY {
      store(load(block.factors + i, count) * load(block.branch[0] + i, count), dropped_ + i, count);
    });
  }

  const LanesBackward<S, B>
      args_;  // a copy: the compiler must assume that stores change the caller's object
  const LaneSums<V> sums_;
  const LaneRows<S, B> rows_;
  const LaneCounts counts_;
  const std::size_t cols_;
  const bool keeps_z_;     ///< whether z of a whole row is kept
  const bool keeps_made_;  ///< whether X′ of a whole row is kept too
  const Stores stores_;
  const NormOptions options_;
  V* const z_;
  S* const made_;
  FeatureVector<V> gamma_;
  const Lanes<V> g_, dz_;
  V* const dropped_;
};

template <typename S, typename B>
void lane_rows_backward(const LanesBackward<S, B>& args, const Plan& plan,
                        const LaneSums<Arithmetic<S>>& sums, std::size_t begin, std::size_t end) {
  LaneBackwardLoops<S, B>(args, plan, sums).run(begin, end);
  if (plan.stores == Stores::kNonTemporal) hwy::FlushStream();
}

#define ADDNORM_INSTANTIATE(S, B)                                                     \
  template void lane_rows_backward(const LanesBackward<S, B>&, const Plan&,           \
                                   const LaneSums<Arithmetic<S>>&, std::size_t begin, \
                                   std::size_t end);
ADDNORM_FOR_PAIRS(ADDNORM_INSTANTIATE)
#undef ADDNORM_INSTANTIATE

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
