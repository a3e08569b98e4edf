/// The loops of Add & Norm forward.

#pragma once

#include "kernels/residual_add.h"
#include "kernels/simd/row_loops.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

// Most loops make two passes over a row. The first computes s from x (type S) and branch (type B).
// It stores s in the caller's matrix, in a staging buffer, or in both; if s is x itself, it stores
// nothing. It also accumulates Σd and Σd² of d = s − shift, where shift is the mean of the row's
// first values (RMSNorm: Σs² alone). The second pass reads s, from the cache, and writes y. The
// loops differ in the order in which rows go through these passes. A row that fits into registers
// needs one pass. A row that is wider than the staging buffer, and whose s the caller does not
// want, is computed twice.

template <typename S, typename B>
class ForwardLoops {
 public:
  using V = Arithmetic<S>;
  static constexpr bool kHasFastLoops = kSpecialized<S, B>;
  static constexpr std::size_t kStreamBytes = sizeof(S);

  ForwardLoops(const NormOptions& options, const AddNormForward<S, B>& args, const Plan& call_plan)
      : plan(call_plan),
        cols(args.add.x.cols),
        options_(options),
        from_moments_(options, cols),
        plain_(is_plain(args.add)),
        adds_(!args.add.branch.empty() || !args.add.skip.is_one() || !args.sum.empty()),
        centred_(from_moments_.centred || !args.beta.empty()),
        y_(args.y),
        statistics_(args.statistics),
        sum_(args.sum),
        streams_y_(plan.stores == Stores::kNonTemporal),
        streams_sum_(streams_y_ && !sum_.empty() && !same_place(sum_, args.add.x) &&
                     !same_place(sum_, args.add.branch) && cols <= kStagedFeatures<S>),
        rows_(args.add, !plain_ || !kHasFastLoops, 3),
        gamma_(FeatureVector<V>::gamma(options, args.gamma)),
        beta_(FeatureVector<V>::beta(options, args.beta)) {
    const std::size_t place = streams_y_
                                  ? place_in_page({args.add.x.data, args.add.branch.data},
                                                  {args.sum.data, args.y.data}, cols * sizeof(S))
                                  : 0;
    S* const staging = thread_region<S>(0, place);
    if (!adds_) {
      s_ = {const_cast<S*>(args.add.x.data), args.add.x.rows, cols, args.add.x.stride};
    } else if (stages()) {
      s_ = {staging, 1, cols, cols};
    } else {
      s_ = sum_;
    }
    gamma_.stage(thread_region<V>(1, place), cols, streams_y_);
    beta_.stage(thread_region<V>(2, place), cols, streams_y_);
    x_ahead_ = prefetch_distance(args.add.x, plan.prefetch / sizeof(S));
    branch_ahead_ = prefetch_distance(args.add.branch, plan.prefetch / sizeof(S));
  }

  void run(std::size_t begin, std::size_t end) const {
    if constexpr (kHasFastLoops) {
      if (plain_ && plan.loop == Loop::kRegisters) begin = in_registers(*this, begin, end);
    }
    auto steps = choose_steps<ForwardLoops>(plain_, plan.from_memory, centred_);
    if (rows_.add().branch.empty()) steps.read_and_write = nullptr;
    if (cols > kStagedFeatures<S>) {
      wide(steps, begin, end);
    } else {
      RowLoops<ForwardLoops>(*this, steps).run(begin, end);
    }
  }

  /// Computes s and statistics of rows, and calls use(r, s, statistics) for each instead of writing
  /// y. `s` is Blocks<V>, valid during the call.
  template <typename Use>
  void read_rows(std::size_t begin, std::size_t end, const Use& use) const {
    auto steps = choose_steps<ForwardLoops>(plain_, plan.from_memory, centred_);
    RowLoops<ForwardLoops>(*this, steps).read_groups(begin, end, [&](const Rows& rows) {
      for (std::size_t g = 0; g < rows.count; ++g) {
        use(rows.first + g, StoredSum(*this, rows, g), rows.statistics.get(g));
      }
    });
  }
  const FeatureVector<V>& gamma() const { return gamma_; }
  const FeatureVector<V>& beta() const { return beta_; }

  // The interface that row_loops.h requires.

  /// A group: up to four rows that one loop processes together.
  struct Rows {
    std::size_t first = 0;
    std::size_t count = 0;
    std::size_t slot = 0;               ///< index of the first row in the staging buffer
    std::size_t s = 0;                  ///< index of the first row in the matrix `s_`
    bool scaled = false;                ///< whether statistics.scale of any row is not 1
    bool staged = true;                 ///< false: s is not in the staging buffer
    HWY_ALIGN V shift[kRowGroup] = {};  ///< the shift of each row of s
    Pack<V, 4> sum[kRowGroup], squares[kRowGroup];  ///< Σd and Σd² of d = s − shift in a block
    BlockSum<V, Group<V>> sums, all_squares;        ///< the same over all blocks
    GroupStatistics<V> statistics;

    HWY_INLINE void add_block(std::size_t end) {
      sums.add(tree_sums(sum), end);
      all_squares.add(tree_sums(squares), end);
    }
  };

  const Plan plan;
  const std::size_t cols;

  /// Σd and Σd² of a step, or Σs² in `squares`.
  template <std::size_t N>
  struct Moments {
    StepLanes<V, N> sum, squares;

    static HWY_INLINE Moments zero() {
      return {set<HWY_MIN(N, kPack)>(V{0}), set<HWY_MIN(N, kPack)>(V{0})};
    }
  };

  /// The number of values per step. If the data comes from memory, a step is at least kPack values:
  /// one or more whole cache lines. Each step of the pipelined loop makes non-temporal stores of s
  /// and of y, and each of these should write whole lines.
  template <typename Mode>
  static constexpr std::size_t kStepOf = Mode::kFromMemory ? HWY_MAX(kPack, (kStep<S, B>))
                                                           : kStep<S, B>;

  /// Computes s of a block of a row, stores it, and sums its moments.
  template <typename Mode, bool kHasBranch = false>
  struct Reader {
    static constexpr std::size_t N = kStepOf<Mode>;

    ResidualBlock<S, B, Mode::kOptions> block;
    S* staged;    ///< where s is stored for the second pass; null if s is x
    S* streamed;  ///< destination of non-temporal stores of s, or null
    const S* x_ahead;
    const B* branch_ahead;
    Broadcast<V, N> shift;

    HWY_INLINE Reader(const ForwardLoops& l, const Rows& rows, std::size_t g, std::size_t begin)
        : block(l.rows_.template block<Mode::kOptions>(rows.first + g, begin, l.width(begin))),
          staged(l.adds_ ? l.s_at(rows, g, begin) : nullptr),
          streamed(l.streams_sum_ ? l.sum_.row(rows.first + g).data() + begin : nullptr),
          x_ahead(ahead(block.x, l.x_ahead_)),
          branch_ahead(block.branch == nullptr ? nullptr : ahead(block.branch, l.branch_ahead_)),
          shift(rows.shift[g]) {}

    template <typename Count>
    HWY_INLINE void operator()(std::size_t i, std::size_t k, Count count, Moments<N>& m) const {
      if constexpr (Mode::kFromMemory) {
        prefetch<N>(x_ahead + i, k);
        if (kHasBranch || branch_ahead != nullptr) prefetch<N>(branch_ahead + i, k);
      }
      Pack<V, N> s = block.template exact<N, kHasBranch>(i, count);
      if (kHasBranch || staged != nullptr) {
        const Stored<S, N> stored = block.rounded(s, i, count);
        s = value_of(stored);
        store(stored, staged + i, count);
        if (Mode::kFromMemory && streamed != nullptr) {
          store<Stores::kNonTemporal>(stored, streamed + i, count);
        }
      }
      if constexpr (Mode::kCentred) {
        const Pack<V, N> d = keep(s - shift, count);
        add_lanes(m.sum, d);
        add_lanes(m.squares, d * d);
      } else {
        add_lanes(m.squares, s * s);
      }
    }
  };

  /// γ and β of a block.
  struct Parameters {
    const V* gamma;
    const V* beta;
  };
  HWY_INLINE Parameters parameters(std::size_t begin) const {
    return {gamma_.at(begin, width(begin)), beta_.at(begin, width(begin))};
  }

  /// Computes y of a block of a row from s.
  template <typename Mode, bool kScaled = false>
  struct Writer {
    static constexpr std::size_t N = kStepOf<Mode>;

    const S* const s;
    const V* const gamma;
    const V* const beta;
    B* const y;
    const bool streams;
    const Normalize<V, N, kScaled> normalize;

    HWY_INLINE Writer(const ForwardLoops& l, const Parameters& parameters, const Rows& rows,
                      std::size_t g, std::size_t begin)
        : s(l.s_at(rows, g, begin)),
          gamma(parameters.gamma),
          beta(parameters.beta),
          y(l.y_.row(rows.first + g).data() + begin),
          streams(l.streams_y_),
          normalize(rows.statistics, g) {}

    template <typename Count>
    HWY_INLINE Pack<V, N> normalized(std::size_t i, Count count) const {
      return normalize(load<N>(s + i, count));
    }
    template <typename Count>
    HWY_INLINE void put(const Pack<V, N>& x_hat, std::size_t i, Count count) const {
      Pack<V, N> out = x_hat * load<N>(gamma + i, count);
      if constexpr (Mode::kCentred) out = out + load<N>(beta + i, count);
      if (Mode::kFromMemory && streams) {
        store<Stores::kNonTemporal>(out, y + i, count);
      } else {
        store(out, y + i, count);
      }
    }
  };

  /// Prefetches a block of row r, which a later group of rows reads, into L2.
  HWY_INLINE void prefetch_block(std::size_t r, std::size_t begin) const {
    if (r >= rows_.add().x.rows) return;
    const auto fetch = [&](const auto& matrix) {
      if (matrix.empty()) return;
      const auto* const block = matrix.row(r).data() + begin;
      constexpr std::size_t kLineValues = kLine / sizeof(*block);
      for (std::size_t i = 0; i < width(begin); i += kLineValues) {
        __builtin_prefetch(block + i, 0, 2);
      }
    };
    fetch(rows_.add().x);
    fetch(rows_.add().branch);
  }

  /// Returns the number of columns of the block that begins at `begin`.
  HWY_INLINE std::size_t width(std::size_t begin) const { return HWY_MIN(kBlock, cols - begin); }

  /// Whether the second pass computes s again: the caller does not want s, and a row does not fit
  /// into the staging buffer.
  HWY_INLINE bool remakes() const { return adds_ && sum_.empty() && cols > kStagedFeatures<S>; }

  /// Whether s is computed into the staging buffer. If remakes(), it holds one block at a time.
  HWY_INLINE bool stages() const { return adds_ && (sum_.empty() || streams_sum_); }

  /// Returns the memory from which the second pass reads a block of s of row g.
  HWY_INLINE S* s_at(const Rows& rows, std::size_t g, std::size_t begin) const {
    return s_.data + (rows.s + g) * s_.stride + (remakes() ? 0 : begin);
  }
  /// Returns how many rows fit into the staging buffer, 1 to `wanted`; all if it is not used.
  std::size_t rows_that_fit(std::size_t wanted) const {
    if (!stages()) return wanted;
    return HWY_MAX(std::size_t{1}, HWY_MIN(wanted, kStagedFeatures<S> / cols));
  }

  /// Computes s and its sums for one block of each row.
  template <typename Mode>
  HWY_NOINLINE void read_block(Rows& rows, std::size_t begin) const {
    constexpr std::size_t N = kStepOf<Mode>;
    for (std::size_t g = 0; g < rows.count; ++g) {
      const Reader<Mode> reader(*this, rows, g, begin);
      Moments<N> moments[kSteps<N>];
      clear<N>(moments);
      for_each_step<N>(width(begin), moments, reader);
      rows.sum[g] = fold(moments, &Moments<N>::sum);
      rows.squares[g] = fold(moments, &Moments<N>::squares);
    }
  }
  /// Normalizes one block of each row from row g on. If `rows.scaled`, g must
  /// be 0.
  template <typename Mode>
  HWY_NOINLINE void write_block(const Rows& rows, std::size_t begin, std::size_t g) const {
    if (HWY_UNLIKELY(rows.scaled)) return write_scaled_block(rows, begin);
    write_block<Mode, false>(rows, begin, g);
  }
  [[gnu::cold]] HWY_NOINLINE void write_scaled_block(const Rows& rows, std::size_t begin) const {
    write_block<LoopMode<true, true, true>, true>(rows, begin, 0);
  }
  template <typename Mode, bool kScaled>
  HWY_INLINE void write_block(const Rows& rows, std::size_t begin, std::size_t g) const {
    const Parameters parameters = this->parameters(begin);
    for (; g < rows.count; ++g) {
      const Writer<Mode, kScaled> writer(*this, parameters, rows, g, begin);
      for_each_step<kStepOf<Mode>>(
          width(begin), [&](std::size_t i, std::size_t, auto count)
                            ADDNORM_BODY { writer.put(writer.normalized(i, count), i, count); });
    }
  }
  /// Computes s and its moments for one block of each row, as read_block() does, and y for the same
  /// block of the previous group of rows, `before`, as write_block() does. There must be a branch:
  /// a test for one would take a tenth of the loop's time.
  template <typename Mode>
  HWY_NOINLINE void read_and_write_block(Rows& rows, const Rows& before, std::size_t begin) const {
    constexpr std::size_t N = kStepOf<Mode>;
    const Parameters parameters = this->parameters(begin);
    for (std::size_t g = 0; g < rows.count; ++g) {
      const Writer<Mode> writer(*this, parameters, before, g, begin);
      const Reader<Mode, true> reader(*this, rows, g, begin);
      Moments<N> moments[kSteps<N>];
      clear<N>(moments);
      for_each_step<N>(width(begin), moments,
                       [&](std::size_t i, std::size_t k, auto count, Moments<N>& m) ADDNORM_BODY {
                         // Read before the new row overwrites s.
                         const Pack<V, N> x_hat = writer.normalized(i, count);
                         reader(i, k, count, m);
                         writer.put(x_hat, i, count);
                       });
      rows.sum[g] = fold(moments, &Moments<N>::sum);
      rows.squares[g] = fold(moments, &Moments<N>::squares);
    }
    if (rows.count < before.count) write_block<Mode>(before, begin, rows.count);
  }

  template <bool kOptions>
  void start(Rows& rows) const {
    rows.s = stages() ? rows.slot : rows.first;
    const Group<V> zero = set<kRowGroup>(V{0});
    rows.sums.start();
    rows.all_squares.start();
    for (std::size_t g = rows.count; g < kRowGroup; ++g) rows.sum[g] = rows.squares[g] = zero;
    store(from_moments_.centred ? means_of_heads<kOptions>(rows) : zero, rows.shift, Full());
  }
  void finish(Rows& rows) const {
    find_statistics(rows, rows.sums.total(cols), rows.all_squares.total(cols));
  }
  /// Returns the mean of the first values of each row.
  template <bool kOptions>
  HWY_INLINE Group<V> means_of_heads(const Rows& rows) const {
    Pack<V, 4> heads[kRowGroup];
    for (Pack<V, 4>& head : heads) head = set<kRowGroup>(V{0});
    for (std::size_t g = 0; g < rows.count; ++g) {
      const auto block = rows_.template block<kOptions>(rows.first + g, 0, HWY_MIN(kPack, cols));
      heads[g] = fold(head<V>(cols, [&](std::size_t, auto count) ADDNORM_BODY {
        const Pack<V> s = block.template exact<kPack>(0, count);
        return adds_ ? value_of(block.rounded(s, 0, count)) : s;
      }));
    }
    return head_means(heads, cols);
  }
  HWY_NOINLINE void find_statistics(Rows& rows, const Group<V>& sums,
                                    const Group<V>& squares) const {
    const Group<V> shift = load<kRowGroup>(rows.shift, Full());
    const unsigned unclear = from_moments_(shift, sums, squares, rows.statistics);
    rows.scaled = false;
    if (HWY_UNLIKELY((unclear & ((1U << rows.count) - 1)) != 0)) recompute_unclear(rows, unclear);
    if (statistics_.empty()) return;
    if (rows.count == kRowGroup) {
      rows.statistics.get_all(&statistics_[rows.first]);
    } else {
      for (std::size_t g = 0; g < rows.count; ++g) {
        statistics_[rows.first + g] = rows.statistics.get(g);
      }
    }
  }

  /// The blocks of s of one row, from memory or computed again.
  struct StoredSum final : Blocks<V> {
    const ForwardLoops& loops;
    const Rows& rows;
    const std::size_t g;

    StoredSum(const ForwardLoops& l, const Rows& of_row, std::size_t index)
        : Blocks<V>(l.cols), loops(l), rows(of_row), g(index) {}
    const V* block(std::size_t begin) const override {
      if (loops.plan.from_memory) loops.prefetch_block(rows.first + rows.count + g, begin);
      if (loops.remakes() || (!rows.staged && loops.stages())) loops.remake(rows, g, begin);
      const std::size_t r = loops.stages() ? rows.slot + g : rows.first + g;
      const S* const s = loops.s_.data + r * loops.s_.stride + (loops.remakes() ? 0 : begin);
      if constexpr (std::is_same_v<S, V>) return s;
      V* const values = thread_region<V>(5) + 4 * kBlock;
      for_each_pack(loops.width(begin), [&](std::size_t i, auto count) ADDNORM_BODY {
        store(load(s + i, count), values + i, count);
      });
      return values;
    }
  };
  /// Computes one block of s of row g again.
  void remake(const Rows& rows, std::size_t g, std::size_t begin) const {
    Rows row;
    row.first = rows.first + g;
    row.count = 1;
    row.s = stages() ? rows.slot + g : row.first;
    if constexpr (kHasFastLoops) {
      if (plain_) return read_block<LoopMode<true, true, false>>(row, begin);
    }
    read_block<LoopMode<true, true, true>>(row, begin);
  }

  /// Computes again, with careful_statistics(), the statistics of rows whose moments are not
  /// precise enough: of row g if bit g of `unclear` is set. Sets `rows.scaled`. Marked as cold, so
  /// that the loops that call it do not spill registers.
  [[gnu::cold]] HWY_NOINLINE void recompute_unclear(Rows& rows, unsigned unclear) const {
    for (std::size_t g = 0; g < rows.count; ++g) {
      if (unclear >> g & 1) {
        rows.statistics.put(g, careful_statistics(options_, StoredSum(*this, rows, g)));
      }
      rows.scaled |= rows.statistics.scale[g] != 1;
    }
  }

  /// Processes rows wider than the staging buffer, block by block. The second pass computes s again
  /// if it is not stored.
  void wide(const RowSteps<ForwardLoops>& steps, std::size_t begin, std::size_t end) const {
    const RowLoops<ForwardLoops> loops(*this, steps);
    for (std::size_t r = begin; r < end; ++r) {
      Rows row;
      loops.read(row, r, 1, 0);
      for (std::size_t column = 0; column < cols; column += kBlock) {
        if (remakes()) (this->*steps.read)(row, column);
        (this->*steps.write)(row, column, 0);
      }
    }
  }

  /// Processes rows of N values in registers, eight at a time. Each row is one pack, which is
  /// loaded once. Two groups of four rows are interleaved, which hides the latency of their
  /// sums. Returns the first row that was not processed.
  template <std::size_t N>
  HWY_NOINLINE std::size_t registers(std::size_t r, std::size_t end) const {
    constexpr std::size_t kRows = 2 * kRowGroup;
    // Copies: the compiler must assume that stores could change the members.
    const ResidualAdd<S, B> add = rows_.add();
    const MatrixView<S> sum = sum_;
    const MatrixView<B> y = y_;
    const V* const gamma = gamma_.at(0, cols);
    const V* const beta = beta_.at(0, cols);
    const bool adds = adds_, streams_sum = streams_sum_, streams_y = streams_y_;
    const std::ptrdiff_t x_ahead = x_ahead_, branch_ahead = branch_ahead_;
    const Group<V> no_sum = set<kRowGroup>(V{0});
    Rows groups[2];
    for (; r + kRows <= end; r += kRows) {
      Pack<V, N> s[kRows];
      Pack<V, 4> sums[2][kRowGroup], squares[2][kRowGroup];
      ADDNORM_EACH_ROW for (std::size_t g = 0; g < kRows; ++g) {
        const S* const x = add.x.row(r + g).data();
        const B* const branch = add.branch.empty() ? nullptr : add.branch.row(r + g).data();
        prefetch<N>(ahead(x, x_ahead), g);
        // Prefetches even without `branch`: a useless prefetch costs less than a test.
        prefetch<N>(ahead(branch, branch_ahead), g);
        s[g] = load<N>(x, Full());
        if (adds) {
          const ResidualBlock<S, B, false> block{x, branch, nullptr, nullptr, nullptr};
          const Pack<V, N> exact = block.template exact<N>(0, Full());
          const Stored<S, N> stored = block.rounded(exact, 0, Full());
          s[g] = value_of(stored);
          if (streams_sum) {
            store<Stores::kNonTemporal>(stored, sum.row(r + g).data(), Full());
          } else if (!sum.empty()) {
            store(stored, sum.row(r + g).data(), Full());
          }
        }
        sums[g / kRowGroup][g % kRowGroup] = fold(head(s[g]));
      }
      ADDNORM_UNROLL for (std::size_t k = 0; k < 2; ++k) {
        const Group<V> shift = from_moments_.centred ? head_means(sums[k], cols) : no_sum;
        store(shift, groups[k].shift, Full());
      }
      ADDNORM_EACH_ROW for (std::size_t g = 0; g < kRows; ++g) {
        const V shift = groups[g / kRowGroup].shift[g % kRowGroup];
        const Pack<V, N> d = s[g] - set<N>(shift);
        sums[g / kRowGroup][g % kRowGroup] = fold(d);
        squares[g / kRowGroup][g % kRowGroup] = fold(d * d);
      }
      ADDNORM_UNROLL for (std::size_t k = 0; k < 2; ++k) {
        Rows& rows = groups[k];
        rows.first = r + k * kRowGroup;
        rows.count = kRowGroup;
        rows.staged = false;
        // Adding +0 turns a sum of −0 into +0. The sums of the other loops start at +0 and are
        // never −0, so the bits are the same.
        find_statistics(rows, no_sum + tree_sums(sums[k]), tree_sums(squares[k]));
      }
      ADDNORM_EACH_ROW for (std::size_t g = 0; g < kRows; ++g) {
        const Normalize<V, N> normalize(groups[g / kRowGroup].statistics, g % kRowGroup);
        const Pack<V, N> out = normalize(s[g]) * load<N>(gamma, Full()) + load<N>(beta, Full());
        if (streams_y) {
          store<Stores::kNonTemporal>(out, y.row(r + g).data(), Full());
        } else {
          store(out, y.row(r + g).data(), Full());
        }
      }
    }
    return r;
  }
  template <typename Mode>
  static constexpr RowSteps<ForwardLoops> steps() {
    RowSteps<ForwardLoops> steps{&ForwardLoops::start<Mode::kOptions>,
                                 &ForwardLoops::read_block<Mode>, &ForwardLoops::finish,
                                 &ForwardLoops::write_block<Mode>, nullptr};
    if constexpr (!Mode::kOptions) {
      steps.read_and_write = &ForwardLoops::read_and_write_block<Mode>;
    }
    return steps;
  }

 private:
  const NormOptions& options_;
  const FromMoments<V> from_moments_;
  const bool plain_;    ///< skip and gain are 1, and there is no dropout
  const bool adds_;     ///< false: s is x, and the caller wants no copy
  const bool centred_;  ///< false: the norm neither subtracts a mean nor adds β
  const MatrixView<B> y_;
  const std::span<NormStatistics<V>> statistics_;
  const MatrixView<S> sum_;
  const bool streams_y_, streams_sum_;  ///< whether y and the caller's s get non-temporal stores
  const ResidualRows<S, B> rows_;
  FeatureVector<V> gamma_, beta_;
  MatrixView<S> s_;  ///< source of the second read of s: x, the sum or the staging buffer
  std::ptrdiff_t x_ahead_, branch_ahead_;  ///< prefetch distances in bytes
};

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
