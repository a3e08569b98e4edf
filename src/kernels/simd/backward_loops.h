/// The loops of Add & Norm backward.

#pragma once

#include "kernels/simd/gradient.h"
#include "kernels/simd/row_loops.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

// First pass over a row: s and dy are read from memory, for Σg, Σg·x̂ and the row's terms of the
// gradients of γ and β. Second pass: s and dy are read again, from the cache, and dx is computed
// (gradient.h). Both passes compute s − hi and g, because that is cheaper than storing them.
// row_loops.h has the loops over rows.

template <typename S, typename B>
class BackwardLoops {
 public:
  using V = Arithmetic<S>;
  static constexpr bool kHasFastLoops = kSpecialized<S, B>;
  static constexpr std::size_t kStreamBytes = sizeof(S);

  /// run() sums the gradients of γ and β of its rows, and finish() writes them to `d_gamma` and
  /// `d_beta`, if not null. With kAccumulate, the sums begin with the values there.
  BackwardLoops(const NormOptions& options, const AddNormBackward<S, B>& args,
                const Plan& call_plan, GradientMode mode, V* d_gamma, V* d_beta)
      : plan(call_plan),
        cols(args.s.cols),
        args_(args),
        centred_(options.kind != NormKind::kRms),
        streams_(plan.stores == Stores::kNonTemporal),
        gamma_(FeatureVector<V>::gamma(options, args.gamma)),
        skip_(FeatureVector<V>::scale(args.skip)),
        skips_(!args.d_residual.empty() && !args.skip.is_one()),
        d_gamma_(d_gamma),
        d_beta_(d_beta),
        unwanted_(thread_region<V>(4)),
        inverse_count_(V{1} / static_cast<V>(cols)),
        inverse_head_(inverse_gradient_head<V>(cols)),
        inverse_divisor_(V{1} / variance_divisor<V>(options, cols)) {
    const std::size_t place = plan.from_memory
                                  ? place_in_page({args.s.data, args.dy.data, args.d_residual.data},
                                                  {args.dx.data}, cols * sizeof(S))
                                  : 0;
    gamma_.stage(thread_region<V>(0, place), cols, plan.from_memory);
    if (skips_) skip_.stage(thread_region<V>(1, place), cols, false);
    if (plan.from_memory && cols <= kStagedFeatures<V>) {
      if (d_gamma != nullptr) d_gamma_ = thread_region<V>(2, place);
      if (d_beta != nullptr) d_beta_ = thread_region<V>(3, place);
    }
    start_sums(mode, d_gamma, d_gamma_);
    start_sums(mode, d_beta, d_beta_);
    if (d_gamma == nullptr || d_beta == nullptr) {
      std::fill_n(unwanted_, kBlock + HWY_MIN(cols, kBlock), V{0});
    }
    const std::size_t ahead = plan.prefetch / sizeof(S);
    s_ahead_ = prefetch_distance(args.s, ahead);
    dy_ahead_ = prefetch_distance(args.dy, ahead);
    residual_ahead_ = prefetch_distance(args.d_residual, ahead);
  }

  void run(std::size_t begin, std::size_t end) const {
    const bool plain = !skips_ && unscaled(begin, end);
    if constexpr (kHasFastLoops) {
      if (plain && plan.loop == Loop::kRegisters) begin = in_registers(*this, begin, end);
    }
    const bool centred = centred_ || d_beta_ != nullptr;
    const auto steps = choose_steps<BackwardLoops>(plain, plan.from_memory, centred);
    RowLoops<BackwardLoops>(*this, steps).run(begin, end);
  }
  /// Copies the sums for γ's and β's gradients to the caller's memory.
  void finish(V* d_gamma, V* d_beta) const {
    if (d_gamma != d_gamma_) std::copy_n(d_gamma_, cols, d_gamma);
    if (d_beta != d_beta_) std::copy_n(d_beta_, cols, d_beta);
  }

  // The interface that row_loops.h requires.

  /// A group: up to four rows that one loop processes together, with their sums.
  struct Rows {
    std::size_t first = 0;
    std::size_t count = 0;
    std::size_t slot = 0;
    /// Always false: run() uses the mode with kOptions if a row has a scale other than 1.
    static constexpr bool scaled = false;  // NOLINT(readability-identifier-naming)
    NormGradient<V> gradient[kRowGroup];
    Pack<V, 4> sum[kRowGroup], projected[kRowGroup];  ///< Σg and Σg·x̂ of one block
    BlockSum<V, Group<V>> sums, projections;          ///< the same over all blocks

    HWY_INLINE void add_block(std::size_t end) {
      sums.add(tree_sums(sum), end);
      projections.add(tree_sums(projected), end);
    }
  };

  const Plan plan;
  const std::size_t cols;

  static constexpr std::size_t rows_that_fit(std::size_t wanted) { return wanted; }

  /// The number of values per step. Longer steps would spill registers.
  static constexpr std::size_t N = HWY_MIN(kPack, (kStep<S, B>));

  using Lanes = GradientSums<V, N>;

  /// Sums a block of a row.
  template <typename Mode>
  struct Reader {
    const S* const s;
    const B* const dy;
    V* const d_gamma;
    V* const d_beta;
    const S* const s_ahead;
    const S* const residual_ahead;
    const Normalize<V, N, Mode::kOptions> normalize;
    const Broadcast<V, N> shift;

    HWY_INLINE Reader(const BackwardLoops& l, const Rows& rows, std::size_t g, std::size_t begin)
        : s(l.args_.s.row(rows.first + g).data() + begin),
          dy(l.args_.dy.row(rows.first + g).data() + begin),
          d_gamma(l.d_gamma_ == nullptr ? l.unwanted_ : l.d_gamma_ + begin),
          d_beta(l.d_beta_ == nullptr ? l.unwanted_ + kBlock : l.d_beta_ + begin),
          s_ahead(ahead(s, l.s_ahead_)),
          residual_ahead(l.residual_ahead(rows.first + g, begin)),
          normalize(l.args_.statistics[rows.first + g]),
          shift(rows.gradient[g].shift) {}

    template <typename Count>
    HWY_INLINE void operator()(const Pack<V, N>& gamma, std::size_t i, std::size_t k, Count count,
                               Lanes& l) const {
      if constexpr (Mode::kFromMemory) {
        prefetch<N>(s_ahead + i, k);
        if (residual_ahead != nullptr) prefetch<N>(residual_ahead + i, k);
      }
      const Pack<V, N> dy_here = load<N>(dy + i, count);
      const Pack<V, N> x_hat = normalize(load<N>(s + i, count));
      Pack<V, N> g = dy_here * gamma;
      if constexpr (Mode::kCentred) {
        g = g - shift;
        store(load<N>(d_beta + i, count) + dy_here, d_beta + i, count);
      }
      l.template add<Mode::kCentred>(g, x_hat, count);
      store(load<N>(d_gamma + i, count) + dy_here * x_hat, d_gamma + i, count);
    }
  };

  /// Computes dx of a block of a row.
  template <typename Mode>
  struct Writer {
    const S* const s;
    const B* const dy;
    const S* const residual;
    const V* const skip;
    S* const dx;
    const bool streams;
    const B* const dy_ahead;
    const NormDerivative<V, N, Mode::kOptions, Mode::kCentred> derivative;

    /// `lead` is the number of rows between this one and the row that is read in the same loop.
    HWY_INLINE Writer(const BackwardLoops& l, const Rows& rows, std::size_t g, std::size_t begin,
                      std::size_t lead = 0)
        : s(l.args_.s.row(rows.first + g).data() + begin),
          dy(l.args_.dy.row(rows.first + g).data() + begin),
          residual(l.args_.d_residual.empty()
                       ? minus_zeros<S>()
                       : l.args_.d_residual.row(rows.first + g).data() + begin),
          skip(l.skips_ ? l.skip_.at(begin, l.width(begin)) : nullptr),
          dx(l.args_.dx.row(rows.first + g).data() + begin),
          streams(l.streams_),
          dy_ahead(ahead(dy + lead * l.args_.dy.stride, l.dy_ahead_)),
          derivative(l.args_.statistics[rows.first + g], rows.gradient[g]) {}

    template <typename Count>
    HWY_INLINE Pack<V, N> gradient(const Pack<V, N>& gamma, std::size_t i, std::size_t k,
                                   Count count) const {
      if constexpr (Mode::kFromMemory) prefetch<N>(dy_ahead + i, k);
      return derivative(load<N>(dy + i, count) * gamma, load<N>(s + i, count));
    }
    template <typename Count>
    HWY_INLINE void put(const Pack<V, N>& gradient, std::size_t i, Count count) const {
      Pack<V, N> past = load<N>(residual + i, count);
      if (Mode::kOptions && skip != nullptr) past = load<N>(skip + i, count) * past;
      if (Mode::kFromMemory && streams) {
        store<Stores::kNonTemporal>(past + gradient, dx + i, count);
      } else {
        store(past + gradient, dx + i, count);
      }
    }
  };

  HWY_INLINE std::size_t width(std::size_t begin) const { return HWY_MIN(kBlock, cols - begin); }
  HWY_INLINE const V* gamma(std::size_t begin) const { return gamma_.at(begin, width(begin)); }

  /// Returns the address of the residual gradient to prefetch. Its rows are those that will be
  /// written while the prefetched values of s are read.
  HWY_INLINE const S* residual_ahead(std::size_t r, std::size_t begin) const {
    if (args_.d_residual.empty()) return nullptr;
    const S* const here = args_.d_residual.row(r).data() + begin;
    if (residual_ahead_ == 0) return here;
    return ahead(here, residual_ahead_) - plan.rows * args_.d_residual.stride;
  }

  /// Sums one block of each row.
  template <typename Mode>
  HWY_NOINLINE void read_block(Rows& rows, std::size_t begin) const {
    const V* const gammas = gamma(begin);
    for (std::size_t g = 0; g < rows.count; ++g) {
      const Reader<Mode> reader(*this, rows, g, begin);
      Lanes lanes[kSteps<N>];
      clear<N>(lanes);
      for_each_step<N>(width(begin), lanes,
                       [&](std::size_t i, std::size_t k, auto count, Lanes& l)
                           ADDNORM_BODY { reader(load<N>(gammas + i, count), i, k, count, l); });
      rows.sum[g] = fold(lanes, &Lanes::sum);
      rows.projected[g] = fold(lanes, &Lanes::projected);
    }
  }
  /// Computes dx of one block of each row from row g on.
  template <typename Mode>
  HWY_NOINLINE void write_block(const Rows& rows, std::size_t begin, std::size_t g) const {
    const V* const gammas = gamma(begin);
    for (; g < rows.count; ++g) {
      const Writer<Mode> writer(*this, rows, g, begin);
      for_each_step<N>(width(begin), [&](std::size_t i, std::size_t k, auto count) ADDNORM_BODY {
        const Pack<V, N> gamma_here = load<N>(gammas + i, count);
        writer.put(writer.gradient(gamma_here, i, k, count), i, count);
      });
    }
  }
  /// Sums one block of each row, and computes dx of the same block of the rows in `before`.
  template <typename Mode>
  HWY_NOINLINE void read_and_write_block(Rows& rows, const Rows& before, std::size_t begin) const {
    const V* const gammas = gamma(begin);
    for (std::size_t g = 0; g < rows.count; ++g) {
      const Reader<Mode> reader(*this, rows, g, begin);
      const Writer<Mode> writer(*this, before, g, begin, plan.rows);
      Lanes lanes[kSteps<N>];
      clear<N>(lanes);
      for_each_step<N>(width(begin), lanes,
                       [&](std::size_t i, std::size_t k, auto count, Lanes& l) ADDNORM_BODY {
                         const Pack<V, N> gamma_here = load<N>(gammas + i, count);
                         const Pack<V, N> gradient = writer.gradient(gamma_here, i, k, count);
                         reader(gamma_here, i, k, count, l);
                         writer.put(gradient, i, count);
                       });
      rows.sum[g] = fold(lanes, &Lanes::sum);
      rows.projected[g] = fold(lanes, &Lanes::projected);
    }
    if (rows.count < before.count) write_block<Mode>(before, begin, rows.count);
  }

  void start(Rows& rows) const {
    const Group<V> zero = set<kRowGroup>(V{0});
    rows.sums.start();
    rows.projections.start();
    for (std::size_t g = rows.count; g < kRowGroup; ++g) rows.sum[g] = rows.projected[g] = zero;
    HWY_ALIGN V shifts[kRowGroup];
    store(centred_ ? means_of_heads(rows) : zero, shifts, Full());
    for (std::size_t g = 0; g < kRowGroup; ++g) rows.gradient[g].shift = shifts[g];
  }
  void finish(Rows& rows) const {
    HWY_ALIGN V means[kRowGroup], projections[kRowGroup];
    store(rows.sums.total(cols) * set<kRowGroup>(inverse_count_), means, Full());
    store(rows.projections.total(cols) * set<kRowGroup>(inverse_divisor_), projections, Full());
    for (std::size_t g = 0; g < rows.count; ++g) {
      rows.gradient[g].finish(args_.statistics[rows.first + g], centred_, means[g], projections[g]);
    }
  }
  /// Returns the shift of each row's g: the mean of its first values.
  HWY_INLINE Group<V> means_of_heads(const Rows& rows) const {
    Pack<V, kGradientHead> heads[kRowGroup];
    for (Pack<V, kGradientHead>& head : heads) head = set<kGradientHead>(V{0});
    const V* const gammas = gamma(0);
    const auto head = [&](std::size_t g, auto count) ADDNORM_BODY {
      return load<kGradientHead>(args_.dy.row(rows.first + g).data(), count) *
             load<kGradientHead>(gammas, count);
    };
    for (std::size_t g = 0; g < rows.count; ++g) {
      heads[g] = cols < kGradientHead ? head(g, Tail{cols}) : head(g, Full());
    }
    return tree_sums(heads) * set<kRowGroup>(inverse_head_);
  }

  /// Processes rows of kWidth values, eight at a time. Each row is one pack, which stays in
  /// registers or, if there are too few, in L1. Two groups of four rows are interleaved, because a
  /// single one would wait for its sums. Returns the first row that was not processed.
  template <std::size_t kWidth>
  HWY_NOINLINE std::size_t registers(std::size_t r, std::size_t end) const {
    using Row = Pack<V, kWidth>;
    // Copies: the compiler must assume that stores could change the members.
    const auto s_view = args_.s;
    const auto dy_view = args_.dy;
    const auto residual_view = args_.d_residual;
    const auto dx_view = args_.dx;
    const bool adds = !residual_view.empty(), centred = centred_, streams = streams_;
    const auto* const statistics = args_.statistics.data();
    const std::ptrdiff_t s_ahead = s_ahead_, dy_ahead = dy_ahead_, past_ahead = residual_ahead_;
    V* const d_gamma_at = d_gamma_ == nullptr ? unwanted_ : d_gamma_;
    V* const d_beta_at = d_beta_ == nullptr ? unwanted_ + kBlock : d_beta_;
    const Group<V> no_sum = set<kRowGroup>(V{0});
    const Row gamma_here = load<kWidth>(gamma(0), Full());
    Row d_gamma = load<kWidth>(d_gamma_at, Full());
    Row d_beta = load<kWidth>(d_beta_at, Full());
    constexpr std::size_t kGroups = 2;
    constexpr std::size_t kRows = kGroups * kRowGroup;
    for (; r + kRows <= end; r += kRows) {
      Row s_from_hi[kRows], g[kRows];
      Pack<V, 4> sums[kGroups][kRowGroup], projected[kGroups][kRowGroup];
      HWY_ALIGN V shifts[kRows], means[kRows], projections[kRows];
      ADDNORM_EACH_ROW for (std::size_t k = 0; k < kRows; ++k) {
        const S* const s = s_view.row(r + k).data();
        const B* const dy_row = dy_view.row(r + k).data();
        prefetch<kWidth>(ahead(s, s_ahead), k);
        prefetch<kWidth>(ahead(dy_row, dy_ahead), k);
        if (adds) prefetch<kWidth>(ahead(residual_view.row(r + k).data(), past_ahead), k);
        const Row dy = load<kWidth>(dy_row, Full());
        const Normalize<V, kWidth, false> normalize(statistics[r + k]);
        s_from_hi[k] = normalize.from_hi(load<kWidth>(s, Full()));
        d_beta = d_beta + dy;
        g[k] = dy * gamma_here;
        sums[k / kRowGroup][k % kRowGroup] = first_four(g[k]);
      }
      ADDNORM_UNROLL for (std::size_t k = 0; k < kGroups; ++k) {
        const Group<V> shift = tree_sums(sums[k]) * set<kRowGroup>(inverse_head_);
        store(centred ? shift : no_sum, shifts + k * kRowGroup, Full());
      }
      ADDNORM_EACH_ROW for (std::size_t k = 0; k < kRows; ++k) {
        g[k] = g[k] - set<kWidth>(shifts[k]);
        sums[k / kRowGroup][k % kRowGroup] = fold(g[k]);
        const Row x_hat = Normalize<V, kWidth, false>(statistics[r + k]).finish(s_from_hi[k]);
        d_gamma = d_gamma + load<kWidth>(dy_view.row(r + k).data(), Full()) * x_hat;
        projected[k / kRowGroup][k % kRowGroup] = fold(g[k] * x_hat);
      }
      ADDNORM_UNROLL for (std::size_t k = 0; k < kGroups; ++k) {
        // Sums over longer rows start at 0, so they are never −0. Adding 0 here gives the same
        // bits.
        store((no_sum + tree_sums(sums[k])) * set<kRowGroup>(inverse_count_), means + k * kRowGroup,
              Full());
        store((no_sum + tree_sums(projected[k])) * set<kRowGroup>(inverse_divisor_),
              projections + k * kRowGroup, Full());
      }
      ADDNORM_EACH_ROW for (std::size_t k = 0; k < kRows; ++k) {
        NormGradient<V> gradient;
        gradient.finish(statistics[r + k], centred, means[k], projections[k]);
        const NormDerivative<V, kWidth, false> derivative(statistics[r + k], gradient);
        Row dx = derivative.of_shifted(g[k], s_from_hi[k]);
        if (adds) dx = load<kWidth>(residual_view.row(r + k).data(), Full()) + dx;
        if (streams) {
          store<Stores::kNonTemporal>(dx, dx_view.row(r + k).data(), Full());
        } else {
          store(dx, dx_view.row(r + k).data(), Full());
        }
      }
    }
    store(d_gamma, d_gamma_at, Full());
    store(d_beta, d_beta_at, Full());
    return r;
  }
  /// Sets the sums of a gradient to 0, or to the caller's values.
  void start_sums(GradientMode mode, const V* given, V* sums) const {
    if (sums == nullptr) return;
    if (mode == GradientMode::kOverwrite) {
      std::fill_n(sums, cols, V{0});
    } else if (sums != given) {
      std::copy_n(given, cols, sums);
    }
  }
  bool unscaled(std::size_t begin, std::size_t end) const {
    bool result = true;
    for (std::size_t r = begin; r < end; ++r) result &= args_.statistics[r].scale == 1;
    return result;
  }
  template <typename Mode>
  static constexpr RowSteps<BackwardLoops> steps() {
    RowSteps<BackwardLoops> steps{&BackwardLoops::start, &BackwardLoops::read_block<Mode>,
                                  &BackwardLoops::finish, &BackwardLoops::write_block<Mode>,
                                  nullptr};
    if constexpr (!Mode::kOptions) {
      steps.read_and_write = &BackwardLoops::read_and_write_block<Mode>;
    }
    return steps;
  }

 private:
  const AddNormBackward<S, B> args_;
  const bool centred_;
  const bool streams_;  ///< whether dx is written with non-temporal stores
  FeatureVector<V> gamma_, skip_;
  const bool skips_;  ///< whether d_residual has a factor other than 1
  V* d_gamma_;
  V* d_beta_;
  V* const unwanted_;  ///< memory for gradients that the caller does not want
  const V inverse_count_, inverse_head_, inverse_divisor_;
  std::ptrdiff_t s_ahead_, dy_ahead_, residual_ahead_;  ///< prefetch distances in bytes
};

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
