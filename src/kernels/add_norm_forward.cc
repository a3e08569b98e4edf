#include "addnorm/norm.h"
#include "base/parallel.h"
#include "kernels/cache.h"
#include "kernels/check.h"
#include "kernels/dispatch.h"
#include "kernels/residual_add.h"
#include "kernels/thread_memory.h"

#ifndef ADDNORM_KERNELS_ADD_NORM_FORWARD_CC
#define ADDNORM_KERNELS_ADD_NORM_FORWARD_CC
namespace addnorm {

/// Rows begin … end − 1.
template <typename S, typename B>
using ForwardRows = void (*)(const NormOptions&, const AddNormForward<S, B>&, std::size_t begin,
                             std::size_t end, Reach reach);

/// The widest rows that go in groups: s of a group of wider ones would not stay in the first cache.
template <typename S>
inline constexpr std::size_t kGroupCols = 2048 / sizeof(S);

/// Whether a matrix overwrites what is added.
template <typename T, typename S, typename B>
bool in_place(const MatrixView<T>& matrix, const ResidualAdd<S, B>& add) {
  return same_place(matrix, add.x) || same_place(matrix, add.branch);
}

}  // namespace addnorm
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/add_norm_forward.cc"
#include <hwy/foreach_target.h>
//
#include "kernels/residual-inl.h"
#include "kernels/row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm {
namespace HWY_NAMESPACE {

// A row is read from memory once: its sum s is made and stored, and its moments are taken. s waits
// in the cache until the statistics are known, and is read again to be normalized, in the loop that
// already reads a later row, so that memory is never idle. Rows go in groups, narrow ones of four:
// what comes at a row's end, sums over lanes, a root and a division, costs little more for four
// than for one. A row of a few packs stays in registers.

/// Values of s that may wait; wider rows take a slower way.
inline constexpr std::size_t kWaiting = 16384;

enum class Affine {
  kPlain,    ///< γ·x̂ + β, or γ·x̂ of RMSNorm
  kGeneral,  ///< no γ, no β, 1 + γ, an output scale
};

template <typename S, typename B>
struct ForwardLoop {
  using V = Arithmetic<S>;
  using Args = AddNormForward<S, B>;

  /// One row that is read.
  struct Read {
    std::size_t r = 0;
    S* kept = nullptr;        ///< where s goes, to be read again; null where that is x
    S* past_cache = nullptr;  ///< where s goes too, or null
    const S* s = nullptr;     ///< where s will be found
  };
  /// One row that is normalized.
  struct Write {
    const S* s = nullptr;
    B* y = nullptr;
  };

  const NormOptions& options;
  const Args& args;
  const FromMoments<V> from_moments;
  const std::size_t cols;
  const V output_scale;
  const GammaPacks<V> gamma;
  S* const waiting;
  const Reach reach;
  const bool streams_sum;  ///< whether s goes past the caches where y does: not in place

  ForwardLoop(const NormOptions& o, const Args& a, S* waiting_rows, Reach call_reach)
      : options(o),
        args(a),
        from_moments(o, a.add.x.cols),
        cols(a.add.x.cols),
        output_scale(static_cast<V>(o.output_scale)),
        gamma{o, a.gamma},
        waiting(waiting_rows),
        reach(call_reach),
        streams_sum(!a.sum.empty() && !in_place(a.sum, a.add)) {}

  /// Rows up to so wide are one pack. Where two steps without masks do, near rows are faster.
  static constexpr std::size_t kShortCols = kMasks && kStep<S, B> < kPack ? kPack - 1 : kPack;

  /// What a row that goes alone asks for. Where the processor foresees all that is read asking does
  /// harm: there it is what is loaded next, which changes nothing. Where s, γ and β fill the first
  /// cache, or values of 16 bits come and go fast, not enough is foreseen.
  HWY_INLINE Ahead ahead_alone() const {
    if (sizeof(S) == 4 && cols < 2048) return {};
    if (args.add.x.stride != cols) return Ahead::rows(1);  // what comes next is not the next row
    if (sizeof(S) == 4) return Ahead::values(768);
    return Ahead::values(first_cache_is_small() ? 256 : 2048);
  }

  /// In the caches, float32 rows of so many features and more are read and then normalized: sums
  /// from the first number on, and from the second on all, and several in blocks.
  static constexpr std::size_t kNarrowestInTurn = 2048;
  static constexpr std::size_t kNarrowestInBlocks = 2560;
  static constexpr std::size_t kRowsInBlocks = 8;
  static constexpr std::size_t kValuesInBlocks = 65536;

  /// Past the caches two outputs take turns, and turns of one line are at times half as fast as
  /// turns of two.
  static constexpr std::size_t kMemoryStep = HWY_MAX(kPack, (kStep<S, B>));

  template <bool kCentredNorm, Add kAddMode, Affine kAffineMode, StoreTo kStoreTo>
  struct Mode {
    static constexpr bool kCentred = kCentredNorm;
    static constexpr Add kAdd = kAddMode;
    static constexpr Affine kAffine = kAffineMode;
    static constexpr StoreTo kTo = kStoreTo;
    /// Whether rows are looked at for what they need; others have scale 1.
    static constexpr bool kGeneral = kAdd == Add::kGeneral || kAffine == Affine::kGeneral;
    /// Values that are taken at a time.
    static constexpr std::size_t kStepSize = kGeneral                  ? kPack
                                             : kTo == StoreTo::kMemory ? kMemoryStep
                                                                       : kStep<S, B>;
    using Normalizes = Normalize<V, kStepSize, kGeneral>;
    using InCache = Mode<kCentredNorm, kAddMode, kAffineMode, StoreTo::kCache>;
  };
  using General = Mode<true, Add::kGeneral, Affine::kGeneral, StoreTo::kCache>;

  /// The widest rows that go in groups in a mode. From memory, and where they take most of the last
  /// cache, float32 goes alone, and bfloat16 where it is not bound by arithmetic and the first
  /// cache is small, as measured: a group begins with a look at each of its rows, and processors
  /// foresee best what is read from one end to the other.
  template <typename Mode>
  std::size_t widest_in_group() const {
    if (Mode::kTo == StoreTo::kCache) {
      const bool alone = sizeof(S) == 4 && !Mode::kGeneral && reach != Reach::kCaches;
      return alone ? 127 : kGroupCols<S>;  // 128, which are near from memory, gain too
    }
    if (sizeof(S) == 4) return 128;
    return kMasks && first_cache_is_small() ? 640 : kGroupCols<S>;
  }

  /// Bytes of γ and, where there is one, β.
  template <typename Mode>
  std::size_t parameter_bytes() const {
    return (Mode::kCentred ? 2 : 1) * cols * sizeof(V);
  }

  /// Whether rows from memory go in pairs: where γ and β take three quarters of the first cache and
  /// more. kTile columns of the one and then of the other, which finds γ and β in that cache.
  template <typename Mode>
  bool goes_in_pairs() const {
    return kPair * cols <= kWaiting && 4 * parameter_bytes<Mode>() >= 3 * first_cache();
  }
  static constexpr std::size_t kPair = 2;
  static constexpr std::size_t kTile = 1024 / sizeof(S);

  /// Whether wide rows go in groups in the caches too: where γ and β, with s of one row, take so
  /// much of the first that they are worth sharing, and so many rows come from beyond it.
  template <typename Mode>
  bool shares_parameters(std::size_t rows) const {
    const bool waits_in_sum = Mode::kAdd == Add::kNone || !args.sum.empty();
    if (Mode::kTo == StoreTo::kMemory || Mode::kGeneral || !waits_in_sum) return false;
    if (first_cache_is_small()) return cols > kBlock && cols * rows >= (1 << 16);
    const std::size_t bytes = cols * sizeof(S) + parameter_bytes<Mode>();
    return bytes >= (40 << 10) && cols * rows >= (1 << 18);
  }

  template <typename Mode, std::size_t N, typename Count>
  HWY_INLINE Pack<V, N> affine(const Pack<V, N>& x_hat, const V* gammas, const V* betas,
                               std::size_t i, Count count) const {
    if constexpr (Mode::kAffine == Affine::kPlain) {
      const Pack<V, N> y = x_hat * load<N>(gammas + i, count);
      if constexpr (Mode::kCentred) return y + load<N>(betas + i, count);
      return y;
    } else {
      const Pack<V, N> y = x_hat * gamma.at(i, count);
      if (args.beta.empty()) return y;
      return y + load(args.beta.data() + i, count) * set(output_scale);
    }
  }

  /// s of one row in blocks: from where it is kept, or made again whenever it is needed.
  struct SumBlocks final : Blocks<V> {
    const ResidualRow<S, B, Add::kGeneral> row;
    const S* kept;  ///< or null
    HWY_ALIGN mutable V room[kBlock];

    SumBlocks(const Args& a, std::size_t r, const S* kept_row)
        : Blocks<V>(a.add.x.cols), row(a.add, r), kept(kept_row) {}

    const V* block(std::size_t begin) const override {
      if constexpr (std::is_same_v<S, V>) {
        if (kept != nullptr) return kept + begin;
      }
      for_each_pack(HWY_MIN(kBlock, this->size - begin),
                    [&](std::size_t i, auto count) ADDNORM_BODY {
                      store(kept != nullptr ? load(kept + begin + i, count) : row(begin + i, count),
                            room + i, count);
                    });
      return room;
    }
  };
  /// s of row r, which has been stored where it is kept.
  SumBlocks again(std::size_t r) const {
    return {args, r, args.sum.empty() ? nullptr : args.sum.row(r).data()};
  }

  /// The statistics of `count` rows from r on; whether all of them have scale 1.
  HWY_INLINE bool find_statistics(std::size_t r, std::size_t count, const Group<V>& shift,
                                  const Group<V>& sums, const Group<V>& squares,
                                  GroupStatistics<V>& found) const {
    const unsigned unclear = from_moments(shift, sums, squares, found);
    const bool unscaled = HWY_LIKELY(unclear == 0) || take_care(unclear, r, count, found);
    if (!args.statistics.empty()) {
      if (count == kRowGroup) {
        found.get_all(&args.statistics[r]);
      } else {
        for (std::size_t g = 0; g < count; ++g) args.statistics[r + g] = found.get(g);
      }
    }
    return unscaled;
  }
  /// Cold, so that what the loops around a call keep in registers stays there.
  [[gnu::cold]] HWY_NOINLINE bool take_care(unsigned unclear, std::size_t r, std::size_t count,
                                            GroupStatistics<V>& found) const {
    bool unscaled = true;
    for (std::size_t g = 0; g < count; ++g) {
      if (unclear >> g & 1) found.put(g, careful_statistics(options, again(r + g)));
      unscaled &= found.scale[g] == 1;
    }
    return unscaled;
  }

  template <std::size_t N>
  struct Lanes {
    StepLanes<V, N> sum, squares;

    static HWY_INLINE Lanes zero() {
      return {set<HWY_MIN(N, kPack)>(V{0}), set<HWY_MIN(N, kPack)>(V{0})};
    }

    template <bool kCentred, typename Count>
    HWY_INLINE void add(const Pack<V, N>& s, const Same<V, N>& shift, Count count) {
      if constexpr (kCentred) {
        const Pack<V, N> d = keep(s - shift, count);
        add_lanes(sum, d);
        add_lanes(squares, d * d);
      } else {
        add_lanes(squares, s * s);
      }
    }
  };

  /// What a row is summed to in a mode.
  template <typename Mode, std::size_t N = Mode::kStepSize>
  struct RowLanes {
    Lanes<N> steps[kSteps<N>];

    HWY_INLINE RowLanes() { clear<N>(steps); }
    HWY_INLINE void fold_to(Pack<V, 4>& sum, Pack<V, 4>& squares) const {
      sum = fold(steps, &Lanes<N>::sum);
      squares = fold(steps, &Lanes<N>::squares);
    }
  };

  /// Columns `begin` … `end` − 1 of one block: of the row that is read, of the row that is
  /// normalized, or of both.
  template <typename Mode, bool kReads, bool kWrites, std::size_t N = Mode::kStepSize>
  HWY_INLINE void sweep(const Read& in, V shift_value, const Write& out,
                        const typename Mode::Normalizes& normalize, std::size_t begin,
                        std::size_t end, const Ahead& ahead, RowLanes<Mode>& lanes) const {
    const ResidualRow<S, B, Mode::kAdd> row(args.add, in.r);
    const S* const later_x = ahead.from(args.add.x, row.x);
    const B* const later_f =
        Mode::kAdd == Add::kPlain ? ahead.from(args.add.branch, row.f) : nullptr;
    const Same<V, N> shift(shift_value);
    const V* const gammas = args.gamma.data();
    const V* const betas = args.beta.data();
    S* const kept = in.kept;
    S* const past_cache = in.past_cache;
    const S* const waits = out.s;
    B* const y = out.y;
    const auto body = [&](std::size_t at, std::size_t k, auto count, Lanes<N>& l) ADDNORM_BODY {
      const std::size_t i = begin + at;
      Pack<V, N> x_hat;  // before the row that is read takes the place of s
      if constexpr (kWrites) x_hat = normalize(load<N>(waits + i, count));
      if constexpr (kReads) {
        if constexpr (Mode::kTo == StoreTo::kMemory) {
          prefetch<N>(later_x + i, k);
          if (Mode::kAdd == Add::kPlain) prefetch<N>(later_f + i, k);
        }
        Pack<V, N> s = row.template exact<N>(i, count);
        if constexpr (Mode::kAdd != Add::kNone) {
          const Stored<S, N> stored = row.rounded(s, i, count);
          s = value_of(stored);
          if (Mode::kTo == StoreTo::kMemory && past_cache != nullptr) {
            store<Mode::kTo>(stored, past_cache + i, count);
          }
          if (Mode::kAdd == Add::kPlain || kept != nullptr) store(stored, kept + i, count);
        }
        l.template add<Mode::kCentred>(s, shift, count);
      }
      if constexpr (kWrites)
        store<Mode::kTo>(affine<Mode>(x_hat, gammas, betas, i, count), y + i, count);
    };
    for_each_step<N>(end - begin, lanes.steps, body);
  }
  /// The same of a whole block, and what the row that is read is summed to there.
  template <typename Mode, bool kReads, bool kWrites>
  HWY_INLINE void sweep_block(const Read& in, V shift, const Write& out,
                              const typename Mode::Normalizes& normalize, std::size_t begin,
                              const Ahead& ahead, Pack<V, 4>& sum, Pack<V, 4>& squares) const {
    RowLanes<Mode> lanes;
    sweep<Mode, kReads, kWrites>(in, shift, out, normalize, begin, end_of_block(begin), ahead,
                                 lanes);
    if constexpr (kReads) lanes.fold_to(sum, squares);
  }
  /// Behind the block of columns that begins at `begin`.
  HWY_INLINE std::size_t end_of_block(std::size_t begin) const {
    return HWY_MIN(begin + kBlock, cols);
  }
  // The first group has none before it, the last none after it.
  template <typename Mode>
  HWY_NOINLINE void read(const Read& in, V shift, std::size_t begin, const Ahead& ahead,
                         Pack<V, 4>& sum, Pack<V, 4>& squares) const {
    sweep_block<Mode, true, false>(in, shift, {}, typename Mode::Normalizes({}), begin, ahead, sum,
                                   squares);
  }
  template <typename Mode>
  HWY_INLINE void write_block(const Write& out, const typename Mode::Normalizes& normalize,
                              std::size_t begin) const {
    Pack<V, 4> none[2];
    sweep_block<Mode, false, true>({}, V{0}, out, normalize, begin, {}, none[0], none[1]);
  }
  template <typename Mode>
  HWY_NOINLINE void write(const Write& out, const GroupStatistics<V>& found, std::size_t g) const {
    const typename Mode::Normalizes normalize(found, g);
    for (std::size_t begin = 0; begin < cols; begin += kBlock) {
      write_block<Mode>(out, normalize, begin);
    }
  }

  template <typename Mode>
  void write_all(const Write (&out)[kRowGroup], const GroupStatistics<V>& found,
                 std::size_t step) const {
    for (std::size_t g = 0; g < step; ++g) write<Mode>(out[g], found, g);
  }

  /// Whether s goes past the caches, and waits elsewhere.
  template <typename Mode>
  HWY_INLINE bool streams() const {
    return Mode::kTo == StoreTo::kMemory && streams_sum;
  }

  /// Where row r goes, place `g` of its group.
  template <typename Mode>
  HWY_INLINE Read reading(std::size_t r, std::size_t g) const {
    S* sum = args.sum.empty() ? nullptr : args.sum.row(r).data();
    const bool is_x =
        Mode::kAdd == Add::kNone || (Mode::kAdd == Add::kGeneral && sum == nullptr &&
                                     args.add.branch.empty() && args.add.skip.is_one());
    if (is_x) return {r, nullptr, nullptr, args.add.x.row(r).data()};
    if (sum != nullptr && !streams<Mode>()) return {r, sum, nullptr, sum};
    return {r, waiting + g * cols, sum, waiting + g * cols};
  }

  /// What the values of a group's rows are measured from.
  template <typename Mode>
  HWY_INLINE Group<V> shifts_of(const ResidualAdd<S, B>& add, std::size_t n, std::size_t r,
                                std::size_t step) const {
    Pack<V, 4> heads[kRowGroup];
    for (Group<V>& unread : heads) unread = set<kRowGroup>(V{0});
    if (!Mode::kCentred || !from_moments.centred) return heads[0];
    for (std::size_t g = 0; g < step; ++g) {
      heads[g] = fold(head<V>(n, ResidualRow<S, B, Mode::kAdd>(add, r + g)));
    }
    return head_means(heads, n);
  }

  /// What s of a group's rows is measured from, and what their blocks are summed to.
  struct RowSums {
    HWY_ALIGN V shift[kRowGroup];
    Pack<V, 4> sum[kRowGroup];
    Pack<V, 4> squares[kRowGroup];
  };
  /// The statistics of `step` rows from r on; whether all of them have scale 1. read_columns(begin,
  /// of) reads a block of them.
  template <typename Mode, typename ReadColumns>
  HWY_INLINE bool sum_rows(GroupStatistics<V>& found, std::size_t r, std::size_t step,
                           const ReadColumns& read_columns) const {
    const Group<V> zero = set<kRowGroup>(V{0});
    RowSums of;
    for (std::size_t g = step; g < kRowGroup; ++g) of.sum[g] = of.squares[g] = zero;
    Group<V> sums = zero, squares = zero;
    const Group<V> shift = shifts_of<Mode>(args.add, cols, r, step);
    store(shift, of.shift, Whole());
    for (std::size_t begin = 0; begin < cols; begin += kBlock) {
      read_columns(begin, of);
      if constexpr (Mode::kCentred) sums = sums + tree_sums(of.sum);
      squares = squares + tree_sums(of.squares);
    }
    return find_statistics(r, step, shift, sums, squares, found);
  }

  /// Rows from r on in groups of `step`; gives the row behind the last whole group.
  template <typename Mode>
  HWY_NOINLINE std::size_t groups(Mode, std::size_t r, std::size_t end, std::size_t step) const {
    if (r + step > end) return r;
    Read in[kRowGroup];
    Write out[kRowGroup];
    GroupStatistics<V> found;
    const Ahead alone = ahead_alone();
    bool waits = false;  // whether a group before this one is to be normalized
    for (; r + step <= end; r += step) {
      for (std::size_t g = 0; g < step; ++g) in[g] = reading<Mode>(r + g, g);
      const auto read_columns = [&](std::size_t begin, RowSums& of) ADDNORM_BODY {
        for (std::size_t g = 0; g < step; ++g) {
          const Ahead ahead = step == 1 ? alone : Ahead(cols, step, g, begin);
          if (!waits) {
            read<Mode>(in[g], of.shift[g], begin, ahead, of.sum[g], of.squares[g]);
          } else {
            sweep_block<Mode, true, true>(in[g], of.shift[g], out[g],
                                          typename Mode::Normalizes(found, g), begin, ahead,
                                          of.sum[g], of.squares[g]);
          }
        }
      };
      waits = sum_rows<Mode>(found, r, step, read_columns) || Mode::kGeneral;
      for (std::size_t g = 0; g < step; ++g) out[g] = {in[g].s, args.y.row(r + g).data()};
      if (!waits) write_all<General>(out, found, step);
    }
    if (waits) write_all<typename Mode::InCache>(out, found, step);
    return r;
  }

  /// One tile of a pair, of columns `begin` … `end` − 1: the row that is read and, unless there is
  /// none, the one before it, place g of its pair, that is normalized.
  template <typename Mode, bool kWrites>
  HWY_INLINE void tile(const Read& in, V shift, const Write& out, const GroupStatistics<V>& found,
                       std::size_t g, std::size_t begin, std::size_t end,
                       RowLanes<Mode>& lanes) const {
    const Ahead ahead(cols, kPair, g, begin, kTile);
    const typename Mode::Normalizes normalize(found, g);
    sweep<Mode, true, kWrites>(in, shift, out, normalize, begin, end, ahead, lanes);
  }
  /// Rows from r on in pairs, a tile of one and then of the other; gives the row behind the last
  /// whole pair.
  template <typename Mode>
  HWY_NOINLINE std::size_t pairs(Mode, std::size_t r, std::size_t end) const {
    if (r + kPair > end) return r;
    Read in[kPair];
    Write out[kRowGroup];
    GroupStatistics<V> found;
    bool waits = false;  // whether a pair before this one is to be normalized
    for (; r + kPair <= end; r += kPair) {
      for (std::size_t g = 0; g < kPair; ++g) in[g] = reading<Mode>(r + g, g);
      const auto read_columns = [&](std::size_t begin, RowSums& of) ADDNORM_BODY {
        RowLanes<Mode> lanes[kPair];
        for (std::size_t at = begin; at < end_of_block(begin); at += kTile) {
          const std::size_t to = HWY_MIN(at + kTile, cols);
          for (std::size_t g = 0; g < kPair; ++g) {
            waits ? tile<Mode, true>(in[g], of.shift[g], out[g], found, g, at, to, lanes[g])
                  : tile<Mode, false>(in[g], of.shift[g], out[g], found, g, at, to, lanes[g]);
          }
        }
        for (std::size_t g = 0; g < kPair; ++g) lanes[g].fold_to(of.sum[g], of.squares[g]);
      };
      waits = sum_rows<Mode>(found, r, kPair, read_columns);
      for (std::size_t g = 0; g < kPair; ++g) out[g] = {in[g].s, args.y.row(r + g).data()};
      if (!waits) write_all<General>(out, found, kPair);
    }
    if (waits) write_all<typename Mode::InCache>(out, found, kPair);
    return r;
  }

  /// Rows from r on, several of which are read, one after the other, and then normalized, block of
  /// columns by block, so that γ and β come from the first cache for all but the first.
  template <typename Mode>
  HWY_NOINLINE void in_blocks(Mode, std::size_t r, std::size_t end) const {
    const std::size_t values = args.sum.empty() ? kWaiting : kValuesInBlocks;
    const std::size_t most = cols < kNarrowestInBlocks
                                 ? 1
                                 : HWY_MAX(std::size_t{1}, HWY_MIN(kRowsInBlocks, values / cols));
    Write out[kRowsInBlocks];
    GroupStatistics<V> found[kRowsInBlocks];
    for (std::size_t rows; r < end; r += rows) {
      rows = HWY_MIN(most, end - r);
      bool unscaled = true;
      for (std::size_t k = 0; k < rows; ++k) {
        const Read in = reading<Mode>(r + k, k);
        unscaled &=
            sum_rows<Mode>(found[k], r + k, 1, [&](std::size_t begin, RowSums& of) ADDNORM_BODY {
              read<Mode>(in, of.shift[0], begin, {}, of.sum[0], of.squares[0]);
            });
        out[k] = {in.s, args.y.row(r + k).data()};
      }
      for (std::size_t k = 0; !unscaled && k < rows; ++k) write<General>(out[k], found[k], 0);
      for (std::size_t begin = 0; unscaled && begin < cols; begin += kBlock) {
        for (std::size_t k = 0; k < rows; ++k) {
          write_block<Mode>(out[k], typename Mode::Normalizes(found[k], 0), begin);
        }
      }
    }
  }

  /// Rows whose s stays in the first cache until it is normalized, a group later. Of so few values
  /// what comes once a row takes as long as the values do, so addresses are kept simple and one
  /// loop does one thing.
  template <typename Mode, typename Cols, std::size_t kSize>
  struct NearRows {
    /// Whether a row is one step: s is made where its head is asked for, and not for that alone.
    static constexpr bool kOneStep =
        std::is_same_v<Cols, std::integral_constant<std::size_t, kSize>>;
    using Normalizes = Normalize<V, kSize, false>;

    const ForwardLoop& loop;
    const Cols n;
    // Copies: a compiler must assume that what is stored could change the members of args.
    const ResidualAdd<S, B> add = loop.args.add;
    const MatrixView<S> sum = loop.args.sum;
    const MatrixView<B> y = loop.args.y;
    const V* const gammas = loop.args.gamma.data();
    const V* const betas = loop.args.beta.data();
    S* const waiting = loop.waiting;
    const bool streams = loop.template streams<Mode>();

    /// Where s of row r waits.
    HWY_INLINE const S* kept(std::size_t r) const {
      return Mode::kAdd == Add::kNone ? add.x.row(r).data() : keeps(r);
    }
    HWY_INLINE S* keeps(std::size_t r) const {
      if (!sum.empty() && !streams) return sum.row(r).data();
      return waiting + r % (2 * kRowGroup) * n;
    }

    /// s of row r, step by step, which is put where it waits.
    struct Make {
      const ResidualRow<S, B, Mode::kAdd> row;
      S* const keep_at;
      S* const past_cache;
      const S* const later_x;
      const B* const later_f;

      HWY_INLINE Make(const NearRows& rows, std::size_t r, const Ahead& ahead)
          : row(rows.add, r),
            keep_at(rows.keeps(r)),
            past_cache(rows.streams ? rows.sum.row(r).data() : nullptr),
            later_x(ahead.from(rows.add.x, row.x)),
            later_f(Mode::kAdd == Add::kPlain ? ahead.from(rows.add.branch, row.f) : nullptr) {}

      template <typename Count>
      HWY_INLINE Pack<V, kSize> operator()(std::size_t i, std::size_t k, Count count) const {
        if constexpr (Mode::kTo == StoreTo::kMemory) {
          prefetch<kSize>(later_x + i, k);
          if (Mode::kAdd == Add::kPlain) prefetch<kSize>(later_f + i, k);
        }
        const Pack<V, kSize> s = row.template exact<kSize>(i, count);
        if constexpr (Mode::kAdd == Add::kNone) return s;
        const Stored<S, kSize> stored = row.rounded(s, i, count);
        store(stored, keep_at + i, count);
        if (past_cache != nullptr) store<Mode::kTo>(stored, past_cache + i, count);
        return value_of(stored);
      }
    };
    HWY_INLINE Make make(std::size_t r) const { return {*this, r, Ahead(n, kRowGroup, 0, 0)}; }

    /// What the values of a group's rows are measured from.
    HWY_INLINE Group<V> shifts(std::size_t r) const {
      if constexpr (!kOneStep) {
        return loop.template shifts_of<Mode>(add, n, r, kRowGroup);
      } else {
        Pack<V, 4> heads[kRowGroup];
        for (std::size_t g = 0; g < kRowGroup; ++g)
          heads[g] = fold(head(make(r + g)(0, 0, Whole())));
        return Mode::kCentred ? head_means(heads, n) : set<kRowGroup>(V{0});
      }
    }
    HWY_INLINE void read(std::size_t r, V shift_value, Pack<V, 4>& sums,
                         Pack<V, 4>& squares) const {
      const Same<V, kSize> shift(shift_value);
      if constexpr (kOneStep) {
        Pack<V, kSize> d = load<kSize>(kept(r), Whole());
        if constexpr (Mode::kCentred) d = d - shift;
        sums = fold(d);
        squares = fold(d * d);
      } else {
        const Make s = make(r);
        Lanes<kSize> lanes[kSteps<kSize>];
        clear<kSize>(lanes);
        for_each_step<kSize>(
            n, lanes, [&](std::size_t i, std::size_t k, auto count, Lanes<kSize>& l) ADDNORM_BODY {
              l.template add<Mode::kCentred>(s(i, k, count), shift, count);
            });
        sums = fold(lanes, &Lanes<kSize>::sum);
        squares = fold(lanes, &Lanes<kSize>::squares);
      }
    }
    HWY_INLINE void write(std::size_t r, const Normalizes& normalize) const {
      const S* const s = kept(r);
      B* const to = y.row(r).data();
      for_each_step<kSize>(n, [&](std::size_t i, auto count) ADDNORM_BODY {
        const Pack<V, kSize> x_hat = normalize(load<kSize>(s + i, count));
        store<Mode::kTo>(loop.template affine<Mode>(x_hat, gammas, betas, i, count), to + i, count);
      });
    }
  };

  /// Rows of n = cols values, which may be a constant, from r on in groups, kSize values at a time;
  /// gives the row behind the last whole group.
  template <std::size_t kSize = kStep<S, B>, typename Mode, typename Cols>
  HWY_NOINLINE std::size_t near_rows(Mode, Cols n, std::size_t r, std::size_t end) const {
    if (r + kRowGroup > end) return r;
    using Rows = NearRows<Mode, Cols, kSize>;
    const Rows rows{*this, n};
    GroupStatistics<V> found;
    Pack<V, 4> sum[kRowGroup], squared[kRowGroup];
    HWY_ALIGN V shifts[kRowGroup];
    const Group<V> no_sum = set<kRowGroup>(V{0});
    Group<V> next = rows.shifts(r);
    const auto write = [&](std::size_t g) ADDNORM_BODY {
      rows.write(r - kRowGroup + g, typename Rows::Normalizes(found, g));
    };
    bool waits = false;  // whether the group before this one is to be normalized
    for (; r + kRowGroup <= end; r += kRowGroup) {
      const Group<V> shift = next;
      store(shift, shifts, Whole());
      for (std::size_t g = 0; g < kRowGroup; ++g) {
        rows.read(r + g, shifts[g], sum[g], squared[g]);
        if (waits) write(g);
      }
      // Before the sums that the next statistics wait for.
      if (r + 2 * kRowGroup <= end) next = rows.shifts(r + kRowGroup);
      // 0 + …: sums over longer rows begin at 0, so none is −0.
      waits =
          find_statistics(r, kRowGroup, shift, no_sum + tree_sums(sum), tree_sums(squared), found);
      for (std::size_t g = 0; !waits && g < kRowGroup; ++g) {
        this->template write<General>({rows.kept(r + g), args.y.row(r + g).data()}, found, g);
      }
    }
    for (std::size_t g = 0; waits && g < kRowGroup; ++g) write(g);
    return r;
  }

  /// Rows of at most N values, each a pack that is read once; two groups at a time, since one
  /// alone would wait for its own sums. Gives the row behind the last whole pair of groups.
  template <typename Mode, std::size_t N, typename Count>
  HWY_NOINLINE std::size_t short_rows(Count count, std::size_t r, std::size_t end) const {
    // Copies: a compiler must assume that what is stored could change the members.
    const ResidualAdd<S, B> add = args.add;
    const bool adds = !add.branch.empty();
    const MatrixView<S> sum = args.sum;
    const bool streams_it = streams<Mode>();
    const MatrixView<B> y = args.y;
    const V* const gammas = args.gamma.data();
    const V* const betas = args.beta.data();
    const Group<V> no_sum = set<kRowGroup>(V{0});
    const std::size_t n = std::is_same_v<Count, Whole> ? N : cols;
    constexpr std::size_t kRows = 2 * kRowGroup;
    const Ahead ahead = ahead_of_short_rows<S>();
    GroupStatistics<V> found[2];
    for (; r + kRows <= end; r += kRows) {
      Pack<V, N> s[kRows];
      Pack<V, 4> sums[2][kRowGroup], squared[2][kRowGroup];
      ADDNORM_UNROLL for (std::size_t g = 0; g < kRows; ++g) {
        s[g] = load<N>(add.x.row(r + g).data(), count);
        prefetch<N>(ahead.from(add.x, add.x.row(r + g).data()), g);
        // Where there is no branch too: asking for nothing costs less than a jump.
        prefetch<N>(ahead.from(add.branch, add.branch.row(r + g).data()), g);
        if (adds) {
          const ResidualRow<S, B, Add::kPlain> row(add, r + g);
          const Stored<S, N> stored = row.rounded(row.template exact<N>(0, count), 0, count);
          s[g] = value_of(stored);
          if (streams_it) {
            store<Mode::kTo>(stored, sum.row(r + g).data(), count);
          } else if (!sum.empty()) {
            store(stored, sum.row(r + g).data(), count);
          }
        }
        sums[g / kRowGroup][g % kRowGroup] = fold(head(s[g]));
      }
      Group<V> shift[2] = {no_sum, no_sum};
      HWY_ALIGN V shifts[kRows];
      ADDNORM_UNROLL for (std::size_t k = 0; k < 2; ++k) {
        if constexpr (Mode::kCentred) shift[k] = head_means(sums[k], n);
        store(shift[k], shifts + k * kRowGroup, Whole());
      }
      ADDNORM_UNROLL for (std::size_t g = 0; g < kRows; ++g) {
        const Pack<V, N> d = keep(s[g] - set<N>(shifts[g]), count);
        sums[g / kRowGroup][g % kRowGroup] = fold(d);
        squared[g / kRowGroup][g % kRowGroup] = fold(d * d);
      }
      ADDNORM_UNROLL for (std::size_t k = 0; k < 2; ++k) {
        // 0 + …: as in the sums over longer rows, which begin at 0, no sum is −0.
        find_statistics(r + k * kRowGroup, kRowGroup, shift[k], no_sum + tree_sums(sums[k]),
                        tree_sums(squared[k]), found[k]);
      }
      ADDNORM_UNROLL for (std::size_t g = 0; g < kRows; ++g) {
        const Pack<V, N> x_hat = Normalize<V, N>(found[g / kRowGroup], g % kRowGroup)(s[g]);
        store<Mode::kTo>(affine<Mode>(x_hat, gammas, betas, 0, count), y.row(r + g).data(), count);
      }
    }
    return r;
  }

  template <typename Mode, std::size_t N>
  std::size_t short_rows(std::size_t r, std::size_t end) const {
    if constexpr (!kMasks) {  // which cost nothing
      if (cols == N) return short_rows<Mode, N>(Whole(), r, end);
    }
    return short_rows<Mode, N>(Part{cols}, r, end);
  }

  /// A row too wide to wait: s is read again where it is kept, and made again where it is not.
  void wide_row(std::size_t r) const {
    if (!args.sum.empty()) {  // x or the branch may stand in the same place
      S* const sum = args.sum.row(r).data();
      SumBlocks(args, r, nullptr)
          .for_each_block([&](const V* s, std::size_t n, std::size_t begin) ADDNORM_BODY {
            for_each_pack(n, [&](std::size_t i, auto count) ADDNORM_BODY {
              store(load(s + i, count), sum + begin + i, count);
            });
          });
    }
    const SumBlocks row = again(r);
    const NormStatistics<V> found = statistics(options, row);
    const Normalize<V> normalize(found);
    B* const y = args.y.row(r).data();
    row.for_each_block([&](const V* s, std::size_t n, std::size_t begin) ADDNORM_BODY {
      for_each_pack(n, [&](std::size_t i, auto count) ADDNORM_BODY {
        const Pack<V> x_hat = normalize(load(s + i, count));
        store(affine<General>(x_hat, nullptr, nullptr, begin + i, count), y + begin + i, count);
      });
    });
    if (!args.statistics.empty()) args.statistics[r] = found;
  }

  template <typename Mode>
  void rows(Mode mode, std::size_t begin, std::size_t end) const {
    if constexpr (!Mode::kGeneral) {
      const std::size_t widest_near = HWY_MIN(kNearCols, widest_in_group<Mode>());
      if (cols == kHeadSize) {
        begin = near_rows(mode, std::integral_constant<std::size_t, kHeadSize>(), begin, end);
      } else if (cols <= widest_near && cols % kStep<S, B> == 0) {
        begin = near_rows(mode, cols, begin, end);
      } else if (cols <= widest_near) {  // longer steps would end in one that is half empty
        begin = near_rows<HWY_MIN(kPack, (kStep<S, B>))>(mode, cols, begin, end);
      }
    }
    if constexpr (!Mode::kGeneral && Mode::kTo == StoreTo::kCache && sizeof(S) == 4) {
      constexpr bool kAdds = Mode::kAdd == Add::kPlain;
      if (cols >= (kAdds ? kNarrowestInTurn : kNarrowestInBlocks)) {
        return in_blocks(mode, begin, end);
      }
    }
    if (cols <= widest_in_group<Mode>() || shares_parameters<Mode>(end - begin)) {
      begin = groups(mode, begin, end, kRowGroup);
    }
    if constexpr (!Mode::kGeneral && Mode::kTo == StoreTo::kMemory) {
      if (goes_in_pairs<Mode>()) begin = pairs(mode, begin, end);
    }
    groups(mode, begin, end, 1);
  }

  template <bool kCentred, StoreTo kTo>
  void choose(std::size_t begin, std::size_t end) const {
    if constexpr (kSpecialized<S, B>) {
      const bool adds = !args.add.branch.empty();
      const bool usual =
          gamma.plain() && args.beta.empty() != kCentred && args.add.skip.is_one() &&
          (adds ? args.add.gain.is_one() && !args.add.dropout.active() : args.sum.empty());
      using Plain = Mode<kCentred, Add::kPlain, Affine::kPlain, kTo>;
      using Alone = Mode<kCentred, Add::kNone, Affine::kPlain, kTo>;
      if constexpr (kTo == StoreTo::kCache) {
        if (usual && cols <= 8) {
          begin = short_rows<Plain, 8>(begin, end);
        } else if (usual && cols <= 16) {
          begin = short_rows<Plain, 16>(begin, end);
        } else if (usual && cols <= kShortCols) {
          begin = short_rows<Plain, 32>(begin, end);
        } else if constexpr (sizeof(S) == 2 && !kMasks) {
          // float32 would not stay in registers; with AVX-512 near rows are faster
          if (usual && cols <= 64) begin = short_rows<Plain, 64>(begin, end);
        }
      } else if constexpr (kMemoryStep > kPack) {  // so the loops for wider rows take longer steps
        if (usual && cols == kPack) begin = short_rows<Plain, kPack>(Whole(), begin, end);
      }
      if (usual) return adds ? rows(Plain(), begin, end) : rows(Alone(), begin, end);
    }
    rows(General(), begin, end);
  }

  void run(std::size_t begin, std::size_t end) const {
    if (cols > kWaiting) {
      for (std::size_t r = begin; r < end; ++r) wide_row(r);
    } else if (reach == Reach::kPast && (cols >= kMemoryStep || cols == kPack)) {
      from_moments.centred ? choose<true, StoreTo::kMemory>(begin, end)
                           : choose<false, StoreTo::kMemory>(begin, end);
      hwy::FlushStream();
    } else {
      from_moments.centred ? choose<true, StoreTo::kCache>(begin, end)
                           : choose<false, StoreTo::kCache>(begin, end);
    }
  }
};

template <typename S, typename B>
void rows_forward(const NormOptions& options, const AddNormForward<S, B>& args, std::size_t begin,
                  std::size_t end, Reach reach) {
  using V = Arithmetic<S>;
  const std::size_t cols = args.add.x.cols;
  // What stays in the caches is not so slow that it is worth the search.
  const bool past_cache = reach == Reach::kPast;
  const std::size_t place = past_cache
                                ? place_in_page({args.add.x.data, args.add.branch.data},
                                                {args.sum.data, args.y.data}, cols * sizeof(S))
                                : 0;
  constexpr std::size_t kWaitingBytes = kWaiting * sizeof(S) + kPage;
  constexpr std::size_t kParameterBytes = kOwnParameters * sizeof(V) + kPage;
  static_assert(kWaitingBytes + 2 * kParameterBytes <= kThreadMemory);
  std::byte* const waiting = thread_memory() + place;
  AddNormForward<S, B> placed = args;
  if (past_cache && cols <= kOwnParameters) {
    const auto own = [](std::span<const V> values, std::byte* room) {
      V* const copy = reinterpret_cast<V*>(room);
      return std::span<const V>(copy, std::ranges::copy(values, copy).out);
    };
    placed.gamma = own(args.gamma, waiting + kWaitingBytes);
    placed.beta = own(args.beta, waiting + kWaitingBytes + kParameterBytes);
  }
  ForwardLoop<S, B>(options, placed, reinterpret_cast<S*>(waiting), reach).run(begin, end);
}

ADDNORM_TABLE(forward_table, ForwardRows, rows_forward)

}  // namespace HWY_NAMESPACE
}  // namespace addnorm
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace addnorm {
namespace {

HWY_EXPORT(forward_table);
ADDNORM_KERNEL_OF(forward_kernel, ForwardRows, forward_table, rows_forward)

template <typename S, typename B>
void check_forward(const NormOptions& options, const AddNormForward<S, B>& args) {
  constexpr const char* kWhere = "add_norm_forward";
  const std::size_t rows = args.add.x.rows;
  const std::size_t cols = args.add.x.cols;
  check_row_kind(kWhere, options);
  check_norm_options(kWhere, options, cols);
  check_residual_add(kWhere, args.add);
  check_optional_shape(kWhere, "sum", args.sum, rows, cols);
  check_shape(kWhere, "y", args.y, rows, cols);
  require(args.sum.empty() || !same_place(args.sum, args.y),
          "{}: sum and y are the same matrix, each needs one of its own", kWhere);
  check_optional_length(kWhere, "gamma", args.gamma, cols);
  check_optional_length(kWhere, "beta", args.beta, cols);
  check_optional_length(kWhere, "statistics", args.statistics, rows);
}

/// As measured. y over x or the branch may go past the caches too, but short rows lose by that, and
/// a norm alone, which then moves but one matrix.
template <typename S, typename B>
Reach reach_of(const AddNormForward<S, B>& args) {
  constexpr std::size_t kWidestKept = 64;
  const std::size_t cols = args.y.cols;
  const bool sum_in_place = in_place(args.sum, args.add);
  const bool y_in_place = in_place(args.y, args.add);
  const std::size_t bytes = bytes_of(args.add.x) + bytes_of(args.add.branch) +
                            (sum_in_place ? 0 : bytes_of(args.sum)) +
                            (y_in_place ? 0 : bytes_of(args.y));
  const bool worth_it =
      !(sum_in_place || y_in_place) || (cols > kWidestKept && !args.add.branch.empty());
  const bool can_pass = streamable(args.y) && (sum_in_place || streamable(args.sum));
  if (fills_last_cache(bytes) && can_pass && worth_it) return Reach::kPast;
  return fills_last_cache(bytes, 0.75) ? Reach::kFar : Reach::kCaches;
}

}  // namespace

template <typename S, typename B>
void add_norm_forward(const NormOptions& options, const AddNormForward<S, B>& args) {
  check_forward(options, args);
  const std::size_t rows = args.add.x.rows;
  const std::size_t cols = args.add.x.cols;
  const Reach reach = reach_of(args);
  const ForwardRows<S, B> kernel = forward_kernel<S, B>();
  const std::size_t step = cols <= kGroupCols<S> ? kRowGroup : 1;
  parallel_ranges(rows, row_grain(cols), step, [&](std::size_t begin, std::size_t end) {
    kernel(options, args, begin, end, reach);
  });
}

#define ADDNORM_INSTANTIATE(S, B) \
  template void add_norm_forward(const NormOptions&, const AddNormForward<S, B>&);
ADDNORM_FOR_STORAGES(ADDNORM_INSTANTIATE)
#undef ADDNORM_INSTANTIATE

}  // namespace addnorm
#endif  // HWY_ONCE
