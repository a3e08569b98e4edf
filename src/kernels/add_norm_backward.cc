#include <limits>

#include "addnorm/norm.h"
#include "base/parallel.h"
#include "kernels/cache.h"
#include "kernels/check.h"
#include "kernels/dispatch.h"
#include "kernels/thread_memory.h"

#ifndef ADDNORM_KERNELS_ADD_NORM_BACKWARD_CC
#define ADDNORM_KERNELS_ADD_NORM_BACKWARD_CC
namespace addnorm {

/// Rows begin … end − 1. What they add to the gradients of γ and β goes to `d_gamma` and `d_beta`,
/// where these are not null; they begin at 0.
template <typename V>
struct BackwardRange {
  std::size_t begin;
  std::size_t end;
  V* d_gamma;
  V* d_beta;
  Reach reach;
};
template <typename S, typename B>
using BackwardRows = void (*)(const NormOptions&, const AddNormBackward<S, B>&,
                              const BackwardRange<Arithmetic<S>>&);

/// out[i] (+)= factor·Σ over blocks of partials[b·cols + i] for i = begin … end − 1.
template <typename V>
struct PartialSums {
  const V* partials;
  std::size_t blocks;
  std::size_t cols;
  V factor;
  V* out;
  bool accumulate;
};

}  // namespace addnorm
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/add_norm_backward.cc"
#include <hwy/foreach_target.h>
//
#include <array>

#include "kernels/residual-inl.h"
#include "kernels/row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm {
namespace HWY_NAMESPACE {

// As in forward: a row's s and dy are read from memory once, where Σg and Σg·x̂ and the parameters'
// gradients are summed. With these, s and dy, which the caches still hold, become dx: in a loop of
// their own (in turn: the usual cases of float32, and in the caches of wide rows of bfloat16 where
// there are masks), else in the loop that already reads a later row. Those go in groups, block of
// columns by block, so that γ and the parameters' gradients are in the first cache for all but one
// of them; from memory, where they are wide, alone.
// Wide rows of float32 from memory are read whole, one after the other, and written block by block:
// there the parameters' gradients are summed. Where the first cache is small they go alone instead.

// A short row's s − hi and g − shift stay in registers where there are enough, and in the first
// cache elsewhere.
#undef ADDNORM_EACH_ROW
#if HWY_TARGET == HWY_AVX3  // kMasks
#define ADDNORM_EACH_ROW ADDNORM_UNROLL
#else
#define ADDNORM_EACH_ROW ADDNORM_NO_UNROLL
#endif

/// A block of gradients that change nothing that they are added to: x + −0 = x, for 0 and −0 too.
template <typename S>
const S* no_residual() {
  static constexpr auto kBlockOfNothing = [] {
    std::array<S, kBlock> block;
    block.fill(S(-0.0F));
    return block;
  }();
  return kBlockOfNothing.data();
}

/// Wider rows go in pairs: s and dy of four of them would not stay in the first cache.
template <typename S>
inline constexpr std::size_t kWidestOfFour = 1024 / sizeof(S);

template <typename S, typename B>
struct BackwardLoop {
  using V = Arithmetic<S>;

  /// What rows need to become gradients:
  /// dx = ((g − shift) − offset − (s − hi)·slope)/deviation with g = γ·dy
  struct GroupSums {
    HWY_ALIGN V shift[kRowGroup] = {};
    HWY_ALIGN V offset[kRowGroup] = {};
    HWY_ALIGN V slope[kRowGroup] = {};
  };

  const NormOptions& options;
  const AddNormBackward<S, B>& args;
  const BackwardRange<V>& range;
  V* const near_values;
  const std::size_t cols;
  const bool centred;
  const GammaPacks<V> gamma;
  const V inverse_count;
  const V inverse_head;
  const V inverse_divisor;

  /// Values that rows near one another keep: s − hi and g − shift of two groups.
  static constexpr std::size_t kNearValues = 2 * (2 * kRowGroup * kNearCols);

  /// `near` has room for kNearValues.
  BackwardLoop(const NormOptions& o, const AddNormBackward<S, B>& a, const BackwardRange<V>& r,
               V* near)
      : options(o),
        args(a),
        range(r),
        near_values(near),
        cols(a.s.cols),
        centred(o.kind != NormKind::kRms),
        gamma{o, a.gamma},
        inverse_count(V{1} / static_cast<V>(cols)),
        inverse_head(inverse_gradient_head<V>(cols)),
        inverse_divisor(V{1} / variance_divisor<V>(o, cols)) {}

  /// Longer steps would not stay in registers.
  static constexpr std::size_t kBackwardStep = HWY_MIN(kPack, (kStep<S, B>));

  /// Whether a mode knows what is asked, or must look.
  template <bool kCentredNorm, bool kPlain, StoreTo kStoreTo,
            bool kFarAway = kStoreTo == StoreTo::kMemory>
  struct Mode {
    static constexpr bool kCentred = kCentredNorm;
    /// Plain γ, its gradient, and β's where centred; no skip; no row is scaled.
    static constexpr bool kKnown = kPlain;
    static constexpr StoreTo kTo = kStoreTo;
    /// Whether later values are asked for.
    static constexpr bool kFar = kFarAway;
    static constexpr std::size_t kStepSize = kPlain ? kBackwardStep : kPack;
    using InCache = Mode<kCentredNorm, kPlain, StoreTo::kCache>;
    using Far = Mode<kCentredNorm, kPlain, StoreTo::kCache, true>;
  };
  using General = Mode<true, false, StoreTo::kCache>;

  /// Whether rows are read and written in turn. Elsewhere one loop writes a row and reads a later
  /// one: more arithmetic for each value that comes from memory, and half as many loops.
  static constexpr bool kInTurn = sizeof(S) == 4;
  /// The widest rows that are near: what waits of wider ones does not stay in a small first cache
  /// beside the rows themselves, as measured. Of float32 from memory wider ones are faster one
  /// after the other, as processors foresee them.
  template <bool kFromMemory>
  static std::size_t widest_near() {
    if (kFromMemory) return 96;
    if (first_cache_is_small() && kInTurn) return 128;
    return first_cache_is_small() && kMasks ? 192 : kNearCols;
  }
  /// The narrowest rows of which a group is read side by side and written in turn, as measured, in
  /// the caches. For that there must be registers enough.
  static std::size_t narrowest_side_by_side() {
    if (kInTurn) return 2048;
    return first_cache_is_small() ? 512 : 1025;
  }
  /// The narrowest rows from afar that go alone, one read while another is written, as measured:
  /// where the first cache is small those of float32 of which more than the residual gradient does
  /// not stay in it; where it is not, none of float32, which then go in blocks.
  static std::size_t narrowest_alone() {
    if (first_cache_is_small()) return kInTurn ? 1024 : 512;
    return kInTurn ? std::numeric_limits<std::size_t>::max() : kBlock + 1;
  }
  /// The narrowest rows of float32 that go in blocks, and how many rows, or values, do: s and dy of
  /// them wait in the second cache, 256 KB.
  static constexpr std::size_t kNarrowestInBlocks = 2048;
  static constexpr std::size_t kRowsInBlocks = 8;
  static constexpr std::size_t kValuesInBlocks = 32768;
  /// What a loop does with a block of columns.
  struct Work {
    bool reads;       ///< sums g and g·x̂ of a row
    bool parameters;  ///< adds to the gradients of γ and β, from the row it reads if it reads one
    bool writes;      ///< dx of a row
  };
  static constexpr Work kRead{.reads = true, .parameters = true, .writes = false};
  static constexpr Work kReadSums{.reads = true, .parameters = false, .writes = false};
  static constexpr Work kWrite{.reads = false, .parameters = false, .writes = true};
  static constexpr Work kWriteParameters{.reads = false, .parameters = true, .writes = true};
  static constexpr Work kReadAndWrite{.reads = true, .parameters = true, .writes = true};
  /// Of which matrices a loop asks for later values, where data comes from memory.
  struct Asks {
    bool s, dy, d_residual;
  };
  /// How far on these are: in s and dy, and in the residual gradient.
  struct Later {
    Ahead inputs, d_residual;
  };
  /// What rows from memory that go in turn ask for, while one is read and while it is written.
  struct AsksInTurn {
    Asks while_read, while_written;
  };
  static constexpr AsksInTurn kAsked{{.s = true, .dy = false, .d_residual = true},
                                     {.s = false, .dy = true, .d_residual = false}};
  static constexpr AsksInTurn kForeseen{};

  /// What a row that is read while another is written asks for: where γ and its gradient and β's
  /// fill the first cache, what is asked for too early is gone when it is needed.
  HWY_INLINE Ahead ahead_alone() const {
    if (args.s.stride != cols) return Ahead::rows(1);  // what comes next is not the next row
    if (first_cache_is_small()) return Ahead::values(512 / sizeof(S));
    return Ahead::values(cols < 2048 ? 2048 : 1280);
  }

  /// Where the block of columns that begins at `begin` has its values, if there are any.
  template <typename T>
  static T* block_of(T* values, std::size_t begin) {
    return values == nullptr ? nullptr : values + begin;
  }
  template <typename Mode>
  const S* residual_block(std::size_t r, std::size_t begin) const {
    if (!args.d_residual.empty()) return args.d_residual.row(r).data() + begin;
    if constexpr (Mode::kKnown) return no_residual<S>();
    return nullptr;
  }

  /// γ as it counts for dy. The block's plain γ is a parameter because a compiler must assume that
  /// what is stored could change the members.
  template <typename Mode, std::size_t N, typename Count>
  HWY_INLINE Pack<V, N> effective(const V* plain, std::size_t begin, std::size_t at,
                                  Count count) const {
    if constexpr (Mode::kKnown) {
      return load<N>(plain + at, count);
    } else {
      return gamma.template at<N>(begin + at, count);
    }
  }

  template <std::size_t N, typename Count>
  HWY_INLINE static void add_to(V* sums, const Pack<V, N>& p, Count count) {
    store(load<N>(sums, count) + p, sums, count);
  }

  template <typename Mode, std::size_t N, typename Count>
  HWY_INLINE static void add_parameters(const Pack<V, N>& dy, const Pack<V, N>& x_hat, V* d_gamma,
                                        V* d_beta, std::size_t at, Count count) {
    if (Mode::kKnown || d_gamma != nullptr) add_to<N>(d_gamma + at, dy * x_hat, count);
    if (Mode::kKnown ? Mode::kCentred : d_beta != nullptr) add_to<N>(d_beta + at, dy, count);
  }

  template <typename Mode, std::size_t N, typename Count>
  HWY_INLINE Pack<V, N> with_residual(const Pack<V, N>& dx, const S* past, std::size_t begin,
                                      std::size_t at, Count count) const {
    if constexpr (Mode::kKnown) {
      return load<N>(past + at, count) + dx;
    } else {
      if (past == nullptr) return dx;
      return scale_pack(args.skip, begin + at, count) * load(past + at, count) + dx;
    }
  }

  template <std::size_t N>
  struct Lanes {
    Pack<V, N> sum, projected;

    static HWY_INLINE Lanes zero() { return {set<N>(V{0}), set<N>(V{0})}; }
  };

  /// One block of columns: sums of row `in`, dx of row `out`, place `g` of its group, or both.
  template <typename Mode, Work kWork, Asks kAsks, std::size_t N = Mode::kStepSize>
  HWY_INLINE void sweep(std::size_t in, V shift_in, std::size_t out, const GroupSums& sums_out,
                        std::size_t g, std::size_t begin, const Later& later, Pack<V, 4>& sum,
                        Pack<V, 4>& projected) const {
    const S* const s_in = args.s.row(in).data() + begin;
    const B* const dy_in = args.dy.row(in).data() + begin;
    const S* const s_out = args.s.row(out).data() + begin;
    const B* const dy_out = args.dy.row(out).data() + begin;
    const S* const past = residual_block<Mode>(out, begin);
    S* const dx = args.dx.row(out).data() + begin;
    const S* const later_s = later.inputs.from(args.s, kWork.reads ? s_in : s_out);
    const B* const later_dy = later.inputs.from(args.dy, kWork.reads ? dy_in : dy_out);
    const S* const later_past = later.d_residual.from(args.d_residual, past);
    const V* const plain_gamma = block_of(args.gamma.data(), begin);
    V* const d_gamma = block_of(range.d_gamma, begin);
    V* const d_beta = block_of(range.d_beta, begin);
    const Normalize<V, N, !Mode::kKnown> normalize_in(args.statistics[in]);
    const Normalize<V, N, !Mode::kKnown> normalize_out(args.statistics[out]);
    const Same<V, N> factor(args.statistics[out].reciprocal * args.statistics[out].scale);
    const Same<V, N> shift(shift_in);
    const Same<V, N> shift_out(sums_out.shift[g]);
    const Same<V, N> offset(sums_out.offset[g]);
    const Same<V, N> slope(sums_out.slope[g]);
    Lanes<N> lanes[kSteps<N>];
    clear<N>(lanes);
    const auto body = [&](std::size_t at, std::size_t k, auto count, Lanes<N>& l) ADDNORM_BODY {
      if constexpr (Mode::kFar) {
        if constexpr (kAsks.s) prefetch<N>(later_s + at, k);
        if constexpr (kAsks.dy) prefetch<N>(later_dy + at, k);
        if constexpr (kAsks.d_residual) prefetch<N>(later_past + at, k);
      }
      const Pack<V, N> gamma_here = effective<Mode, N>(plain_gamma, begin, at, count);
      Pack<V, N> d_norm;
      if constexpr (kWork.writes) {
        const Pack<V, N> dy = load<N>(dy_out + at, count);
        const Pack<V, N> s_from_hi = normalize_out.from_hi(load<N>(s_out + at, count));
        if constexpr (kWork.parameters && !kWork.reads) {
          add_parameters<Mode>(dy, normalize_out.finish(s_from_hi), d_gamma, d_beta, at, count);
        }
        Pack<V, N> g_out = dy * gamma_here;
        if constexpr (Mode::kCentred) g_out = (g_out - shift_out) - offset;
        d_norm = (g_out - s_from_hi * slope) * factor;
      }
      if constexpr (kWork.reads) {
        const Pack<V, N> dy = load<N>(dy_in + at, count);
        const Pack<V, N> x_hat = normalize_in(load<N>(s_in + at, count));
        Pack<V, N> g_in = dy * gamma_here;
        if constexpr (Mode::kCentred) {
          g_in = g_in - shift;
          l.sum = l.sum + keep(g_in, count);
        }
        l.projected = l.projected + keep(g_in * x_hat, count);
        if constexpr (kWork.parameters) {
          add_parameters<Mode>(dy, x_hat, d_gamma, d_beta, at, count);
        }
      }
      if constexpr (kWork.writes) {
        store<Mode::kTo>(with_residual<Mode, N>(d_norm, past, begin, at, count), dx + at, count);
      }
    };
    for_each_step<N>(HWY_MIN(kBlock, cols - begin), lanes, body);
    if constexpr (kWork.reads) {
      sum = fold(lanes, &Lanes<N>::sum);
      projected = fold(lanes, &Lanes<N>::projected);
    }
  }
  /// One block of columns of row r, which is only read.
  template <typename Mode, Work kWork, Asks kAsks>
  HWY_INLINE void read_block(std::size_t r, V shift, std::size_t begin, const Later& later,
                             Pack<V, 4>& sum, Pack<V, 4>& projected) const {
    sweep<Mode, kWork, kAsks>(r, shift, r, {}, 0, begin, later, sum, projected);
  }
  /// dx of one block of columns of row r, place g of its group.
  template <typename Mode, Work kWork, Asks kAsks>
  HWY_INLINE void write_block(std::size_t r, const GroupSums& sums, std::size_t g,
                              std::size_t begin, const Later& later) const {
    Pack<V, 4> none[2];
    sweep<Mode, kWork, kAsks>(r, V{0}, r, sums, g, begin, later, none[0], none[1]);
  }
  /// dx of a whole row.
  template <typename Mode, Asks kAsks>
  HWY_INLINE void write_row(std::size_t r, const GroupSums& sums, std::size_t g,
                            const Later& later) const {
    for (std::size_t begin = 0; begin < cols; begin += kBlock) {
      write_block<Mode, kWrite, kAsks>(r, sums, g, begin, later);
    }
  }
  // The first group has none before it, the last none after it.
  template <typename Mode>
  HWY_NOINLINE void read(std::size_t r, V shift, std::size_t begin, Pack<V, 4>& sum,
                         Pack<V, 4>& projected) const {
    read_block<typename Mode::InCache, kRead, Asks{}>(r, shift, begin, {}, sum, projected);
  }
  template <typename Mode>
  HWY_NOINLINE void write(std::size_t r, const GroupSums& sums, std::size_t g) const {
    write_row<typename Mode::InCache, Asks{}>(r, sums, g, {});
  }

  /// What g of a group's rows is measured from: the means of their first values.
  template <typename Mode>
  HWY_INLINE Group<V> shifts_of(std::size_t r, std::size_t step) const {
    Pack<V, kGradientHead> heads[kRowGroup];
    for (Pack<V, kGradientHead>& unread : heads) unread = set<kGradientHead>(V{0});
    if (!Mode::kCentred || !centred) return heads[0];
    const auto head = [&](std::size_t g, auto count) ADDNORM_BODY {
      return load<kGradientHead>(args.dy.row(r + g).data(), count) *
             effective<Mode, kGradientHead>(args.gamma.data(), 0, 0, count);
    };
    for (std::size_t g = 0; g < step; ++g) {
      heads[g] = cols < kGradientHead ? head(g, Part{cols}) : head(g, Whole());
    }
    return tree_sums(heads) * set<kRowGroup>(inverse_head);
  }

  /// What the rows of a group need, from their sums.
  HWY_INLINE void find(GroupSums& found, std::size_t r, std::size_t step, const Group<V>& shift,
                       const Group<V>& sums, const Group<V>& projections) const {
    store(shift, found.shift, Whole());
    store(sums * set<kRowGroup>(inverse_count), found.offset, Whole());
    store(projections * set<kRowGroup>(inverse_divisor), found.slope, Whole());
    for (std::size_t g = 0; g < step; ++g) {
      const NormStatistics<V>& row = args.statistics[r + g];
      found.slope[g] = found.slope[g] * row.epsilon_ratio * row.reciprocal;
      if (centred) found.offset[g] = gradient_offset(found.offset[g], row.mean_lo, found.slope[g]);
    }
  }

  /// What g of a group's rows is measured from, and what their blocks are summed to.
  struct RowSums {
    HWY_ALIGN V shift[kRowGroup];
    Pack<V, 4> sum[kRowGroup];
    Pack<V, 4> projected[kRowGroup];
  };
  /// What `step` rows from r on need, from their sums. read_columns(begin, of) reads a block of
  /// them.
  template <typename Mode, typename ReadColumns>
  HWY_INLINE void sum_rows(GroupSums& found, std::size_t r, std::size_t step,
                           const ReadColumns& read_columns) const {
    const Group<V> zero = set<kRowGroup>(V{0});
    RowSums of;
    for (std::size_t g = step; g < kRowGroup; ++g) of.sum[g] = of.projected[g] = zero;
    Group<V> sums = zero, projections = zero;
    const Group<V> shift = shifts_of<Mode>(r, step);
    store(shift, of.shift, Whole());
    for (std::size_t begin = 0; begin < cols; begin += kBlock) {
      read_columns(begin, of);
      if (Mode::kCentred && centred) sums = sums + tree_sums(of.sum);
      projections = projections + tree_sums(of.projected);
    }
    find(found, r, step, shift, sums, projections);
  }

  /// Rows from r on in groups of `step`; gives the row behind the last whole group.
  template <typename Mode>
  HWY_NOINLINE std::size_t groups(Mode, std::size_t r, std::size_t end, std::size_t step) const {
    if (r + step > end) return r;
    GroupSums found;
    const Ahead alone = ahead_alone();
    for (bool first = true; r + step <= end; r += step, first = false) {
      const auto read_columns = [&](std::size_t begin, RowSums& of) ADDNORM_BODY {
        for (std::size_t g = 0; g < step; ++g) {
          if (first) {
            read<Mode>(r + g, of.shift[g], begin, of.sum[g], of.projected[g]);
          } else {
            const Ahead ahead = step == 1 ? alone : Ahead(cols, step, g, begin);
            sweep<Mode, kReadAndWrite, Asks{true, true, true}>(r + g, of.shift[g], r - step + g,
                                                               found, g, begin, {ahead, ahead},
                                                               of.sum[g], of.projected[g]);
          }
        }
      };
      sum_rows<Mode>(found, r, step, read_columns);
    }
    for (std::size_t g = 0; g < step; ++g) write<Mode>(r - step + g, found, g);
    return r;
  }

  /// One block of columns of the rows of a group, read side by side: γ and the parameters'
  /// gradients are loaded and stored once for all.
  template <typename Mode, std::size_t N = Mode::kStepSize>
  HWY_NOINLINE void read_group(std::size_t r, std::size_t begin, RowSums& of) const {
    static_assert(Mode::kKnown && Mode::kTo == StoreTo::kCache && kRowGroup == 4);
    struct GroupLanes {
      Lanes<N> of[kRowGroup];

      static HWY_INLINE GroupLanes zero() {
        return {{Lanes<N>::zero(), Lanes<N>::zero(), Lanes<N>::zero(), Lanes<N>::zero()}};
      }
    };
    const S* s[kRowGroup];
    const B* dy[kRowGroup];
    // Numbers, and not a Normalize: its vectors would not stay in registers beside the sums.
    V minus_hi[kRowGroup], lo[kRowGroup], reciprocal[kRowGroup], shift[kRowGroup];
    for (std::size_t g = 0; g < kRowGroup; ++g) {
      const NormStatistics<V>& row = args.statistics[r + g];
      s[g] = args.s.row(r + g).data() + begin;
      dy[g] = args.dy.row(r + g).data() + begin;
      minus_hi[g] = -row.mean_hi;
      lo[g] = row.mean_lo;
      reciprocal[g] = row.reciprocal;
      shift[g] = of.shift[g];
    }
    const V* const gammas = args.gamma.data() + begin;
    V* const d_gamma = range.d_gamma + begin;
    V* const d_beta = block_of(range.d_beta, begin);
    GroupLanes lanes[kSteps<N>];
    clear<N>(lanes);
    const auto body = [&](std::size_t at, std::size_t, auto count, GroupLanes& l) ADDNORM_BODY {
      const Pack<V, N> gamma_here = load<N>(gammas + at, count);
      Pack<V, N> d_gamma_here = load<N>(d_gamma + at, count);
      Pack<V, N> d_beta_here;
      if constexpr (Mode::kCentred) d_beta_here = load<N>(d_beta + at, count);
      ADDNORM_UNROLL for (std::size_t g = 0; g < kRowGroup; ++g) {
        const Pack<V, N> dy_here = load<N>(dy[g] + at, count);
        const Pack<V, N> centred_s =
            (load<N>(s[g] + at, count) + set<N>(minus_hi[g])) - set<N>(lo[g]);
        const Pack<V, N> x_hat = centred_s * set<N>(reciprocal[g]);
        Pack<V, N> g_here = dy_here * gamma_here;
        if constexpr (Mode::kCentred) {
          g_here = g_here - set<N>(shift[g]);
          l.of[g].sum = l.of[g].sum + keep(g_here, count);
          d_beta_here = d_beta_here + dy_here;
        }
        l.of[g].projected = l.of[g].projected + keep(g_here * x_hat, count);
        d_gamma_here = d_gamma_here + dy_here * x_hat;
      }
      store(d_gamma_here, d_gamma + at, count);
      if constexpr (Mode::kCentred) store(d_beta_here, d_beta + at, count);
    };
    for_each_step<N>(HWY_MIN(kBlock, cols - begin), lanes, body);
    for (std::size_t g = 0; g < kRowGroup; ++g) {
      Lanes<N> row[kSteps<N>];
      for (std::size_t k = 0; k < kSteps<N>; ++k) row[k] = lanes[k].of[g];
      of.sum[g] = fold(row, &Lanes<N>::sum);
      of.projected[g] = fold(row, &Lanes<N>::projected);
    }
  }

  /// Rows from r on, alone or, in the caches, in groups, which are read and then written, while
  /// what comes next is asked for. Gives the row behind the last whole group.
  template <std::size_t kRows, AsksInTurn kAsks, typename Mode>
  HWY_NOINLINE std::size_t in_turn(Mode, std::size_t r, std::size_t end) const {
    const Later later{.inputs = Ahead::rows(1), .d_residual = Ahead::values(256)};
    GroupSums found;
    for (; r + kRows <= end; r += kRows) {
      const auto read_columns = [&](std::size_t begin, RowSums& of) ADDNORM_BODY {
        if constexpr (kRows == 1) {
          read_block<Mode, kRead, kAsks.while_read>(r, of.shift[0], begin, later, of.sum[0],
                                                    of.projected[0]);
        } else {
          read_group<Mode>(r, begin, of);
        }
      };
      sum_rows<Mode>(found, r, kRows, read_columns);
      if constexpr (sizeof(S) == 4) {  // γ comes from the first cache for all rows but the first
        for (std::size_t begin = 0; begin < cols; begin += kBlock) {
          for (std::size_t g = 0; g < kRows; ++g) {
            write_block<Mode, kWrite, kAsks.while_written>(r + g, found, g, begin, later);
          }
        }
      } else {  // faster row by row, as measured
        for (std::size_t g = 0; g < kRows; ++g) {
          write_row<Mode, kAsks.while_written>(r + g, found, g, later);
        }
      }
    }
    return r;
  }

  /// Rows from r on, several of which are read, one after the other, and then written, block of
  /// columns by block. Nothing is asked for while they are read: two matrices from one end to the
  /// other are what a processor foresees best.
  template <typename Mode>
  HWY_NOINLINE void in_blocks(Mode, std::size_t r, std::size_t end) const {
    constexpr Asks kWhileWritten{.s = false, .dy = false, .d_residual = true};
    const std::size_t most =
        HWY_MAX(std::size_t{1}, HWY_MIN(kRowsInBlocks, kValuesInBlocks / cols));
    GroupSums found[kRowsInBlocks];
    for (std::size_t rows; r < end; r += rows) {
      rows = HWY_MIN(most, end - r);
      for (std::size_t k = 0; k < rows; ++k) {
        sum_rows<Mode>(found[k], r + k, 1, [&](std::size_t begin, RowSums& of) ADDNORM_BODY {
          read_block<Mode, kReadSums, Asks{}>(r + k, of.shift[0], begin, {}, of.sum[0],
                                              of.projected[0]);
        });
      }
      for (std::size_t begin = 0; begin < cols; begin += kBlock) {
        for (std::size_t k = 0; k < rows; ++k) {
          write_block<Mode, kWriteParameters, kWhileWritten>(
              r + k, found[k], 0, begin, {.inputs = {}, .d_residual = {cols, rows, k, begin}});
        }
      }
    }
  }

  /// Rows whose s − hi and g − shift stay in the first cache until they become dx, a group later.
  /// Of so few values what comes once a row takes as long as the values do, so addresses are kept
  /// simple and one loop does one thing.
  template <typename Mode>
  struct NearRows {
    static constexpr std::size_t kSize = kBackwardStep;
    static constexpr std::size_t kRows = 2 * kRowGroup;

    const BackwardLoop& loop;
    const std::size_t n;
    // Copies: a compiler must assume that what is stored could change the members of args.
    const MatrixView<const S> s = loop.args.s;
    const MatrixView<const B> dy = loop.args.dy;
    const MatrixView<S> dx = loop.args.dx;
    const MatrixView<const S> past = loop.args.d_residual.empty()
                                         ? MatrixView<const S>(no_residual<S>(), s.rows, n, 0)
                                         : loop.args.d_residual;
    const NormStatistics<V>* const statistics = loop.args.statistics.data();
    const V* const gammas = loop.args.gamma.data();
    V* const d_gamma = loop.range.d_gamma;
    V* const d_beta = loop.range.d_beta;
    V* const kept_s;  ///< s − hi
    V* const kept_g;  ///< g − shift

    /// Where those of the row in a place begin: whole packs apart, so that vectors do not cross
    /// lines.
    HWY_INLINE std::size_t kept(std::size_t place) const {
      return place * ((n + kPack - 1) / kPack * kPack);
    }
    /// Asks for the k-th N values of a pack, those from i on, of the row that is read later than r.
    template <std::size_t N>
    HWY_INLINE void ask_ahead(std::size_t r, std::size_t i, std::size_t k) const {
      if constexpr (Mode::kTo == StoreTo::kMemory) {
        const Ahead ahead(n, kRowGroup, 0, 0);
        prefetch<N>(ahead.from(s, s.row(r).data()) + i, k);
        prefetch<N>(ahead.from(dy, dy.row(r).data()) + i, k);
        prefetch<N>(ahead.from(past, past.row(r).data()) + i, k);
      }
    }

    HWY_INLINE void read(std::size_t place, std::size_t r, V shift_value, Pack<V, 4>& sum,
                         Pack<V, 4>& projected) const {
      const S* const s_row = s.row(r).data();
      const B* const dy_row = dy.row(r).data();
      V* const keeps_s = kept_s + kept(place);
      V* const keeps_g = kept_g + kept(place);
      const Normalize<V, kSize, false> normalize(statistics[r]);
      const Same<V, kSize> shift(shift_value);
      Lanes<kSize> lanes[kSteps<kSize>];
      clear<kSize>(lanes);
      for_each_step<kSize>(
          n, lanes, [&](std::size_t i, std::size_t k, auto count, Lanes<kSize>& l) ADDNORM_BODY {
            ask_ahead<kSize>(r, i, k);
            const Pack<V, kSize> dy_here = load<kSize>(dy_row + i, count);
            const Pack<V, kSize> s_from_hi = normalize.from_hi(load<kSize>(s_row + i, count));
            const Pack<V, kSize> x_hat = normalize.finish(s_from_hi);
            Pack<V, kSize> g = dy_here * load<kSize>(gammas + i, count);
            if constexpr (Mode::kCentred) {
              g = g - shift;
              l.sum = l.sum + keep(g, count);
            }
            l.projected = l.projected + keep(g * x_hat, count);
            store(s_from_hi, keeps_s + i, count);
            store(g, keeps_g + i, count);
            add_to<kSize>(d_gamma + i, dy_here * x_hat, count);
            if constexpr (Mode::kCentred) add_to<kSize>(d_beta + i, dy_here, count);
          });
      sum = fold(lanes, &Lanes<kSize>::sum);
      projected = fold(lanes, &Lanes<kSize>::projected);
    }
    /// The same for a group of rows of kHeadSize: γ and the parameters' gradients stay in
    /// registers. Calls after_row(k) behind each row.
    template <typename AfterRow>
    HWY_INLINE void read_group(std::size_t place, std::size_t r, const V (&shifts)[kRowGroup],
                               Pack<V, 4> (&sum)[kRowGroup], Pack<V, 4> (&projected)[kRowGroup],
                               const AfterRow& after_row) const {
      using Row = Pack<V, kHeadSize>;
      const Row gamma_here = load<kHeadSize>(gammas, Whole());
      Row d_gamma_here = load<kHeadSize>(d_gamma, Whole());
      Row d_beta_here;
      if constexpr (Mode::kCentred) d_beta_here = load<kHeadSize>(d_beta, Whole());
      ADDNORM_NO_UNROLL for (std::size_t k = 0; k < kRowGroup; ++k) {
        ask_ahead<kHeadSize>(r + k, 0, 0);
        const Normalize<V, kHeadSize, false> normalize(statistics[r + k]);
        const Row dy_here = load<kHeadSize>(dy.row(r + k).data(), Whole());
        const Row s_from_hi = normalize.from_hi(load<kHeadSize>(s.row(r + k).data(), Whole()));
        const Row x_hat = normalize.finish(s_from_hi);
        Row g = dy_here * gamma_here;
        if constexpr (Mode::kCentred) {
          g = g - Same<V, kHeadSize>(shifts[k]);
          sum[k] = fold_lanes(g);
          d_beta_here = d_beta_here + dy_here;
        }
        projected[k] = fold_lanes(g * x_hat);
        d_gamma_here = d_gamma_here + dy_here * x_hat;
        store(s_from_hi, kept_s + kept(place + k), Whole());
        store(g, kept_g + kept(place + k), Whole());
        after_row(k);
      }
      store(d_gamma_here, d_gamma, Whole());
      if constexpr (Mode::kCentred) store(d_beta_here, d_beta, Whole());
    }
    /// As steps that begin at 0 are summed: no sum is −0.
    HWY_INLINE static Pack<V, 4> fold_lanes(const Pack<V, kHeadSize>& row) {
      Pack<V> lanes = set(V{0});
      add_lanes(lanes, row);
      return fold(lanes);
    }
    HWY_INLINE void write(std::size_t place, std::size_t r, V offset_value, V slope_value) const {
      const V* const s_from_hi = kept_s + kept(place);
      const V* const g = kept_g + kept(place);
      const S* const past_row = past.row(r).data();
      S* const dx_row = dx.row(r).data();
      const Same<V, kSize> offset(offset_value);
      const Same<V, kSize> slope(slope_value);
      const Same<V, kSize> factor(statistics[r].reciprocal);
      for_each_step<kSize>(n, [&](std::size_t i, auto count) ADDNORM_BODY {
        Pack<V, kSize> rest = load<kSize>(g + i, count);
        if constexpr (Mode::kCentred) rest = rest - offset;
        rest = (rest - load<kSize>(s_from_hi + i, count) * slope) * factor;
        store<Mode::kTo>(load<kSize>(past_row + i, count) + rest, dx_row + i, count);
      });
    }
  };

  /// Rows of n = cols values, which may be a constant, from r on in groups; gives the row behind
  /// the last whole group.
  template <typename Mode, typename Cols>
  HWY_NOINLINE std::size_t near_rows(Mode, Cols n, std::size_t r, std::size_t end) const {
    if (r + kRowGroup > end) return r;
    V* const kept_g = near_values + kNearValues / 2;
    const NearRows<Mode> rows{.loop = *this, .n = n, .kept_s = near_values, .kept_g = kept_g};
    GroupSums found;
    Pack<V, 4> sum[kRowGroup], projected[kRowGroup];
    HWY_ALIGN V shifts[kRowGroup];
    std::size_t place = 0;  // of a group's first row: there are places for two groups, in turn
    const auto write = [&](std::size_t g) ADDNORM_BODY {
      rows.write((place ^ kRowGroup) + g, r - kRowGroup + g, found.offset[g], found.slope[g]);
    };
    for (bool first = true; r + kRowGroup <= end; r += kRowGroup, first = false) {
      const Group<V> shift = shifts_of<Mode>(r, kRowGroup);
      store(shift, shifts, Whole());
      if constexpr (kMasks && !std::is_same_v<Cols, std::size_t>) {
        if (first) {
          rows.read_group(place, r, shifts, sum, projected, [](std::size_t) {});
        } else {
          rows.read_group(place, r, shifts, sum, projected, write);
        }
      } else {
        for (std::size_t g = 0; g < kRowGroup; ++g) {
          rows.read(place + g, r + g, shifts[g], sum[g], projected[g]);
          if (!first) write(g);
        }
      }
      find(found, r, kRowGroup, shift, tree_sums(sum), tree_sums(projected));
      place ^= kRowGroup;
    }
    for (std::size_t g = 0; g < kRowGroup; ++g) write(g);
    return r;
  }

  /// Rows of at most N values, each a pack that stays in registers, or in the first cache; two
  /// groups at a time, since one alone would wait for its own sums. Gives the row behind the last
  /// of them.
  template <bool kCentred, std::size_t N, typename Count>
  HWY_NOINLINE std::size_t short_rows(Count count, std::size_t r, std::size_t end) const {
    // Copies: a compiler must assume that what is stored could change the members.
    const auto s_view = args.s;
    const auto dy_view = args.dy;
    const auto past_view = args.d_residual;
    const auto dx_view = args.dx;
    const bool adds = !past_view.empty();
    const auto* const statistics = args.statistics.data();
    const Group<V> no_sum = set<kRowGroup>(V{0});
    const Pack<V, N> gamma_here = load<N>(args.gamma.data(), count);
    Pack<V, N> d_gamma = load<N>(range.d_gamma, count);
    Pack<V, N> d_beta;
    if (kCentred) d_beta = load<N>(range.d_beta, count);
    constexpr std::size_t kGroups = 2;
    constexpr std::size_t kRows = kGroups * kRowGroup;
    const Ahead ahead = ahead_of_short_rows<S>();
    for (; r + kRows <= end; r += kRows) {
      Pack<V, N> s_from_hi[kRows], g[kRows];
      Pack<V, 4> sums[kGroups][kRowGroup], projected[kGroups][kRowGroup];
      HWY_ALIGN V shifts[kRows], means[kRows], projections[kRows];
      ADDNORM_EACH_ROW for (std::size_t k = 0; k < kRows; ++k) {
        prefetch<N>(ahead.from(s_view, s_view.row(r + k).data()), k);
        prefetch<N>(ahead.from(dy_view, dy_view.row(r + k).data()), k);
        if (adds) prefetch<N>(ahead.from(past_view, past_view.row(r + k).data()), k);
        const Pack<V, N> dy = load<N>(dy_view.row(r + k).data(), count);
        const Normalize<V, N, false> normalize(statistics[r + k]);
        s_from_hi[k] = normalize.from_hi(load<N>(s_view.row(r + k).data(), count));
        if (kCentred) d_beta = d_beta + dy;
        g[k] = dy * gamma_here;
        if (kCentred) sums[k / kRowGroup][k % kRowGroup] = first_four(g[k]);
      }
      if constexpr (kCentred) {
        ADDNORM_UNROLL for (std::size_t k = 0; k < kGroups; ++k) {
          store(tree_sums(sums[k]) * set<kRowGroup>(inverse_head), shifts + k * kRowGroup, Whole());
        }
      }
      ADDNORM_EACH_ROW for (std::size_t k = 0; k < kRows; ++k) {
        if constexpr (kCentred) {
          g[k] = g[k] - set<N>(shifts[k]);
          sums[k / kRowGroup][k % kRowGroup] = fold(keep(g[k], count));
        }
        const Pack<V, N> x_hat = Normalize<V, N, false>(statistics[r + k]).finish(s_from_hi[k]);
        d_gamma = d_gamma + load<N>(dy_view.row(r + k).data(), count) * x_hat;
        projected[k / kRowGroup][k % kRowGroup] = fold(keep(g[k] * x_hat, count));
      }
      ADDNORM_UNROLL for (std::size_t k = 0; k < kGroups; ++k) {
        // 0 + …: as in the sums over longer rows, which begin at 0, no sum is −0.
        if constexpr (kCentred) {
          store((no_sum + tree_sums(sums[k])) * set<kRowGroup>(inverse_count),
                means + k * kRowGroup, Whole());
        }
        store((no_sum + tree_sums(projected[k])) * set<kRowGroup>(inverse_divisor),
              projections + k * kRowGroup, Whole());
      }
      ADDNORM_EACH_ROW for (std::size_t k = 0; k < kRows; ++k) {
        const NormStatistics<V>& found = statistics[r + k];
        const V slope = projections[k] * found.epsilon_ratio * found.reciprocal;
        if (kCentred) g[k] = g[k] - set<N>(gradient_offset(means[k], found.mean_lo, slope));
        Pack<V, N> dx = (g[k] - s_from_hi[k] * set<N>(slope)) * set<N>(found.reciprocal);
        if (adds) {
          dx = load<N>(past_view.row(r + k).data(), count) + dx;
        }
        store(dx, dx_view.row(r + k).data(), count);
      }
    }
    store(d_gamma, range.d_gamma, count);
    if (kCentred) store(d_beta, range.d_beta, count);
    return r;
  }

  template <bool kCentred, std::size_t N>
  std::size_t short_rows(std::size_t r, std::size_t end) const {
    if constexpr (!kMasks) {  // which cost nothing
      if (cols == N) return short_rows<kCentred, N>(Whole(), r, end);
    }
    return short_rows<kCentred, N>(Part{cols}, r, end);
  }

  bool unscaled() const {
    bool result = true;
    for (std::size_t r = range.begin; r < range.end; ++r) {
      result &= args.statistics[r].scale == 1;
    }
    return result;
  }

  template <bool kCentred, StoreTo kTo>
  void choose() const {
    std::size_t r = range.begin;
    if constexpr (kSpecialized<S, B>) {
      const bool usual = unscaled() && gamma.plain() && range.d_gamma != nullptr &&
                         (range.d_beta != nullptr) == kCentred &&
                         (args.d_residual.empty() || args.skip.is_one());
      if constexpr (kTo == StoreTo::kCache) {
        if (usual && cols <= 8) {
          r = short_rows<kCentred, 8>(r, range.end);
        } else if (usual && cols <= 16) {
          r = short_rows<kCentred, 16>(r, range.end);
        } else if (usual && cols <= 32) {
          r = short_rows<kCentred, 32>(r, range.end);
        }
      }
      if (usual) return rows(Mode<kCentred, true, kTo>(), r);
    }
    rows(General(), r);
  }
  template <typename Mode>
  void rows(Mode mode, std::size_t r) const {
    constexpr bool kFromMemory = Mode::kKnown && kInTurn && Mode::kTo == StoreTo::kMemory;
    if constexpr (Mode::kKnown) {
      if (cols == kHeadSize) {
        r = near_rows(mode, std::integral_constant<std::size_t, kHeadSize>(), r, range.end);
      } else if (cols <= widest_near<kFromMemory>()) {
        r = near_rows(mode, cols, r, range.end);
      }
    }
    if constexpr (kFromMemory) {
      if (first_cache_is_small()) {
        if (cols >= narrowest_alone()) return all_in_groups(mode, r);
        in_turn<1, kForeseen>(mode, r, range.end);
        return;
      }
      if (cols >= kNarrowestInBlocks) return in_blocks(mode, r, range.end);
    } else if constexpr (Mode::kKnown && Mode::kTo == StoreTo::kCache) {
      if (range.reach == Reach::kFar && (!kInTurn || cols >= narrowest_alone())) {
        return all_in_groups(typename Mode::Far(), r);
      }
      if constexpr (kMasks) {
        if (cols >= narrowest_side_by_side()) r = in_turn<kRowGroup, kAsked>(mode, r, range.end);
      }
    }
    if constexpr (Mode::kKnown && kInTurn) {
      in_turn<1, kAsked>(mode, r, range.end);
    } else {
      all_in_groups(mode, r);
    }
  }
  /// What comes from far goes alone where it is wide, so that it is asked for in memory's order.
  template <typename Mode>
  void all_in_groups(Mode mode, std::size_t r) const {
    const bool alone = Mode::kFar && cols >= narrowest_alone();
    const std::size_t step = alone ? 1 : cols <= kWidestOfFour<S> ? kRowGroup : kRowGroup / 2;
    groups(mode, groups(mode, r, range.end, step), range.end, 1);
  }

  void run() const {
    for (V* gradient : {range.d_gamma, range.d_beta}) {
      if (gradient != nullptr) std::fill_n(gradient, cols, V{0});
    }
    if (range.reach == Reach::kPast && cols >= kPack) {
      centred ? choose<true, StoreTo::kMemory>() : choose<false, StoreTo::kMemory>();
      hwy::FlushStream();
    } else {
      centred ? choose<true, StoreTo::kCache>() : choose<false, StoreTo::kCache>();
    }
  }
};

template <typename S, typename B>
void rows_backward(const NormOptions& options, const AddNormBackward<S, B>& args,
                   const BackwardRange<Arithmetic<S>>& range) {
  using V = Arithmetic<S>;
  const std::size_t cols = args.s.cols;
  using Loop = BackwardLoop<S, B>;
  constexpr std::size_t kNearBytes = Loop::kNearValues * sizeof(V);
  constexpr std::size_t kParameterBytes = kOwnParameters * sizeof(V) + kPage;
  static_assert(kNearBytes + 3 * kParameterBytes <= kThreadMemory);
  static_assert(kNearBytes % kPage == 0);  // so that `place` is one in a page
  std::byte* const memory = thread_memory();
  V* const near = reinterpret_cast<V*>(memory);
  if (range.reach == Reach::kCaches || cols > kOwnParameters) {
    Loop(options, args, range, near).run();
    return;
  }
  const std::size_t place = place_in_page({args.s.data, args.dy.data, args.d_residual.data},
                                          {args.dx.data}, cols * sizeof(S));
  const auto own = [&](std::size_t k) {
    return reinterpret_cast<V*>(memory + kNearBytes + k * kParameterBytes + place);
  };
  AddNormBackward<S, B> placed = args;
  placed.gamma = std::span<const V>(own(0), std::ranges::copy(args.gamma, own(0)).out);
  BackwardRange<V> sums = range;
  if (range.d_gamma != nullptr) sums.d_gamma = own(1);
  if (range.d_beta != nullptr) sums.d_beta = own(2);
  Loop(options, placed, sums, near).run();
  if (range.d_gamma != nullptr) std::copy_n(sums.d_gamma, cols, range.d_gamma);
  if (range.d_beta != nullptr) std::copy_n(sums.d_beta, cols, range.d_beta);
}

ADDNORM_TABLE(backward_table, BackwardRows, rows_backward)

template <typename V>
void sum_partials(const PartialSums<V>& sums, std::size_t begin, std::size_t end) {
  for_each_pack(end - begin, [&](std::size_t at, auto count) ADDNORM_BODY {
    const std::size_t i = begin + at;
    Pack<V> total = set(V{0});
    for (std::size_t b = 0; b < sums.blocks; ++b) {
      total = total + load(sums.partials + b * sums.cols + i, count);
    }
    total = total * set(sums.factor);
    if (sums.accumulate) total = load(sums.out + i, count) + total;
    store(total, sums.out + i, count);
  });
}

void add_partials(const PartialSums<float>& sums, std::size_t begin, std::size_t end) {
  sum_partials(sums, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace addnorm
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace addnorm {
namespace {

HWY_EXPORT(backward_table);
HWY_EXPORT(add_partials);
ADDNORM_KERNEL_OF(backward_kernel, BackwardRows, backward_table, rows_backward)

/// γ's and β's gradients are summed over rows in blocks, at most this many; each block's sum has a
/// place of its own in the workspace, and the blocks are added in order.
constexpr std::size_t kMaxBlocks = 64;

/// At least 16 rows, and as many as have 8192 values, or 128: of smaller blocks much of the time
/// would go into handing their sums from one core's cache to another's, and longer ones would lose
/// digits.
std::size_t rows_per_block(std::size_t rows, std::size_t cols) {
  const std::size_t even = (rows + kMaxBlocks - 1) / kMaxBlocks;
  const std::size_t enough =
      std::clamp<std::size_t>(8192 / std::max<std::size_t>(1, cols), 16, 128);
  return (std::max(even, enough) + kRowGroup - 1) / kRowGroup * kRowGroup;
}
std::size_t count_blocks(std::size_t rows, std::size_t cols) {
  const std::size_t block = rows_per_block(rows, cols);
  return (rows + block - 1) / block;
}

template <typename S, typename B>
void check_backward(const NormOptions& options, const AddNormBackward<S, B>& args) {
  constexpr const char* kWhere = "add_norm_backward";
  const std::size_t rows = args.s.rows;
  const std::size_t cols = args.s.cols;
  check_row_kind(kWhere, options);
  check_norm_options(kWhere, options, cols);
  check_shape(kWhere, "s", args.s, rows, cols);  // the stride
  check_shape(kWhere, "dy", args.dy, rows, cols);
  check_optional_shape(kWhere, "d_residual", args.d_residual, rows, cols);
  check_shape(kWhere, "dx", args.dx, rows, cols);
  check_length(kWhere, "statistics", args.statistics, rows);
  check_optional_length(kWhere, "gamma", args.gamma, cols);
  check_optional_length(kWhere, "skip", args.skip.vector, cols);
  check_optional_length(kWhere, "d_gamma", args.d_gamma, cols);
  check_optional_length(kWhere, "d_beta", args.d_beta, cols);
  if (!args.d_gamma.empty() || !args.d_beta.empty()) {
    require(args.workspace.size() >= add_norm_workspace(rows, cols),
            "{}: workspace has {} values, must have at least {}", kWhere, args.workspace.size(),
            add_norm_workspace(rows, cols));
  }
}

/// The gradients of γ and β from the sums of the blocks.
template <typename S, typename B, typename V = Arithmetic<S>>
void add_blocks(const NormOptions& options, const AddNormBackward<S, B>& args,
                const V* gamma_blocks, const V* beta_blocks) {
  const std::size_t cols = args.s.cols;
  const std::size_t blocks = count_blocks(args.s.rows, cols);
  const bool accumulate = args.parameter_gradients == GradientMode::kAccumulate;
  const V factor = static_cast<V>(options.output_scale);
  constexpr std::size_t kGrain = 16384;  // values that are worth one thread
  parallel_ranges(cols, 1 + kGrain / (blocks + 1), 16, [&](std::size_t begin, std::size_t end) {
    auto add = [&](const V* partials, std::span<V> gradient) {
      if (gradient.empty()) return;
      const PartialSums<V> sums{partials, blocks, cols, factor, gradient.data(), accumulate};
      if constexpr (std::is_same_v<V, float>) {
        ADDNORM_DISPATCH(add_partials)(sums, begin, end);
      } else {
        HWY_STATIC_DISPATCH(sum_partials)<V>(sums, begin, end);
      }
    };
    add(gamma_blocks, args.d_gamma);
    add(beta_blocks, args.d_beta);
  });
}

/// As measured: where the first cache is small half of the last one is far for values of 16 bits,
/// and what is overwritten is faster stored where it stands than past the caches.
template <typename S, typename B>
Reach reach_of(const AddNormBackward<S, B>& args) {
  const bool in_place = same_place(args.dx, args.s) || same_place(args.dx, args.dy) ||
                        same_place(args.dx, args.d_residual);
  const std::size_t bytes = bytes_of(args.s) + bytes_of(args.dy) + bytes_of(args.d_residual) +
                            (in_place ? 0 : bytes_of(args.dx));
  if (fills_last_cache(bytes) && streamable(args.dx) && !in_place) return Reach::kPast;
  const double far = sizeof(S) == 2 && first_cache_is_small() ? 0.5 : 1;
  return fills_last_cache(bytes, far) ? Reach::kFar : Reach::kCaches;
}

}  // namespace

std::size_t add_norm_workspace(std::size_t rows, std::size_t features) {
  return 2 * count_blocks(rows, features) * features;
}

template <typename S, typename B>
void add_norm_backward(const NormOptions& options, const AddNormBackward<S, B>& args) {
  using V = Arithmetic<S>;
  check_backward(options, args);
  const std::size_t rows = args.s.rows;
  const std::size_t cols = args.s.cols;
  const std::size_t blocks = count_blocks(rows, cols);
  const std::size_t block_rows = rows_per_block(rows, cols);
  V* gamma_blocks = args.d_gamma.empty() ? nullptr : args.workspace.data();
  V* beta_blocks = args.d_beta.empty() ? nullptr : args.workspace.data() + blocks * cols;
  const Reach reach = reach_of(args);

  const BackwardRows<S, B> kernel = backward_kernel<S, B>();
  parallel_for(blocks, 1, [&](std::size_t b) {
    auto place = [&](V* partials) { return partials == nullptr ? nullptr : partials + b * cols; };
    const BackwardRange<V> range{b * block_rows, std::min(rows, (b + 1) * block_rows),
                                 place(gamma_blocks), place(beta_blocks), reach};
    kernel(options, args, range);
  });
  add_blocks(options, args, gamma_blocks, beta_blocks);
}

#define ADDNORM_INSTANTIATE(S, B) \
  template void add_norm_backward(const NormOptions&, const AddNormBackward<S, B>&);
ADDNORM_FOR_STORAGES(ADDNORM_INSTANTIATE)
#undef ADDNORM_INSTANTIATE

}  // namespace addnorm
#endif  // HWY_ONCE
