#include "addnorm/norm.h"
#include "base/parallel.h"
#include "kernels/cache.h"
#include "kernels/check.h"
#include "kernels/dispatch.h"
#include "kernels/residual_add.h"

#ifndef ADDNORM_KERNELS_ADD_NORM_FORWARD_CC
#define ADDNORM_KERNELS_ADD_NORM_FORWARD_CC
namespace addnorm {

/// Rows begin … end − 1.
template <typename S, typename B>
using ForwardRows = void (*)(const NormOptions&, const AddNormForward<S, B>&, std::size_t begin,
                             std::size_t end, bool past_cache);

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

// A row is read from memory once: its sum s is made and its moments are taken; s waits in the cache
// until the statistics are known, and is read again to be normalized. While a row is normalized,
// the next one is already being read, in the same loop, so that memory is never idle. Rows go
// through in groups, block of columns by block, so that γ and β are in the first cache for all but
// one of them, and what comes at a row's end (sums over lanes, a root, a division) is done for the
// group.

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
    S* sum = nullptr;      ///< where s goes, or null
    V* waiting = nullptr;  ///< where s goes too, or null
    const V* s = nullptr;  ///< where s will be found
  };
  /// One row that is normalized.
  struct Write {
    const V* s = nullptr;
    B* y = nullptr;
    NormStatistics<V> statistics;
  };

  const NormOptions& options;
  const Args& args;
  const FromMoments<V> from_moments;
  const std::size_t cols;
  const V output_scale;
  const GammaPacks<V> gamma;
  V* const waiting;

  ForwardLoop(const NormOptions& o, const Args& a, V* waiting_rows)
      : options(o),
        args(a),
        from_moments(o, a.add.x.cols),
        cols(a.add.x.cols),
        output_scale(static_cast<V>(o.output_scale)),
        gamma{o, a.gamma},
        waiting(waiting_rows) {}

  template <bool kCentred, Affine kAffine, typename Count>
  HWY_INLINE Pack<V> affine(const Pack<V>& x_hat, std::size_t i, Count count) const {
    if constexpr (kAffine == Affine::kPlain) {
      const Pack<V> y = x_hat * load(args.gamma.data() + i, count);
      if constexpr (kCentred) return y + load(args.beta.data() + i, count);
      return y;
    } else {
      const Pack<V> y = x_hat * gamma(i, count);
      if (args.beta.empty()) return y;
      return y + load(args.beta.data() + i, count) * set(output_scale);
    }
  }

  /// One block of columns: of the row that is normalized, of the row that is read, or of both.
  template <typename Mode, bool kReads, bool kWrites>
  HWY_NOINLINE void sweep(const Read& in, const Write& out,
                          const ResidualRow<S, B, Mode::kAdd>& next, V shift_value,
                          std::size_t begin, Pack<V>& sum, Pack<V>& squares) const {
    const ResidualRow<S, B, Mode::kAdd> row(args.add, in.r);
    const Normalize<V> normalize(out.statistics);
    const Pack<V> shift = set(shift_value);
    Lanes<V> sums, squared;
    for_each_pack(HWY_MIN(kBlock, cols - begin), [&](auto parity, std::size_t at,
                                                     auto count) ADDNORM_BODY {
      const std::size_t i = begin + at;
      Pack<V> x_hat;
      if constexpr (kWrites) x_hat = normalize(load(out.s + i, count));
      if constexpr (kReads) {
        next.prefetch(i);
        const Pack<V> s = in.sum == nullptr
                              ? row(i, count)
                              : store_rounded<Mode::kTo>(row.exact(i, count), in.sum + i, count);
        if (in.waiting != nullptr) store(s, in.waiting + i, count);
        if constexpr (Mode::kCentred) {
          const Pack<V> d = keep(s - shift, count);
          sums.add(parity, d);
          squared.add(parity, d * d);
        } else {
          squared.add(parity, s * s);
        }
      }
      if constexpr (kWrites) {
        store<Mode::kTo>(affine<Mode::kCentred, Mode::kAffine>(x_hat, i, count), out.y + i, count);
      }
    });
    sum = sums.total();
    squares = squared.total();
  }

  template <std::size_t kRows, bool kReads, bool kWrites, typename Mode>
  HWY_NOINLINE void blocks(Mode, const Read (&in)[kRows], const Write (&out)[kRows],
                           const V (&shift)[kRows], std::size_t next, V (&sums)[kRows],
                           V (&squares)[kRows]) const {
    for (std::size_t begin = 0; begin < cols; begin += kBlock) {
      Pack<V> sum[kRows], squared[kRows];
      for (std::size_t g = 0; g < kRows; ++g) {
        const ResidualRow<S, B, Mode::kAdd> ahead(args.add, next + g);
        sweep<Mode, kReads, kWrites>(in[g], out[g], ahead, shift[g], begin, sum[g], squared[g]);
      }
      if constexpr (kReads) {
        V part[kRows];
        if constexpr (Mode::kCentred) {
          tree_sums(sum, part);
          for (std::size_t g = 0; g < kRows; ++g) sums[g] += part[g];
        }
        tree_sums(squared, part);
        for (std::size_t g = 0; g < kRows; ++g) squares[g] += part[g];
      }
    }
  }

  /// Where row r goes, place `g` of its group.
  HWY_INLINE Read reading(std::size_t r, std::size_t g, bool past_cache) const {
    Read in{r, args.sum.empty() ? nullptr : args.sum.row(r).data(), nullptr, nullptr};
    if constexpr (std::is_same_v<S, V>) {
      if (in.sum != nullptr && !past_cache) {
        in.s = in.sum;
        return in;
      }
      if (args.add.branch.empty() && args.add.skip.is_one()) {
        in.s = args.add.x.row(r).data();
        return in;
      }
    }
    in.s = in.waiting = waiting + g * cols;
    return in;
  }

  template <std::size_t kRows, typename Mode>
  HWY_NOINLINE std::size_t groups(Mode mode, std::size_t r, std::size_t end) const {
    if (r + kRows > end) return r;
    Read in[kRows];
    Write out[kRows];
    V no_sums[kRows], no_squares[kRows], shift[kRows] = {};
    const std::size_t last = args.add.x.rows - kRows;
    bool first = true;
    for (; r + kRows <= end; r += kRows) {
      Pack<V> heads[kRows];
      for (std::size_t g = 0; g < kRows; ++g) {
        in[g] = reading(r + g, g, Mode::kTo == StoreTo::kMemory);
        if constexpr (Mode::kCentred) {
          heads[g] = head<V>(cols, ResidualRow<S, B, Mode::kAdd>(args.add, r + g));
        }
      }
      if (Mode::kCentred && from_moments.centred) {
        tree_sums(heads, shift);
        for (V& s : shift) s = s / head_size<V>(cols);
      }
      V sums[kRows] = {}, squares[kRows] = {};
      const std::size_t next = HWY_MIN(r + kRows, last);
      if (first) {
        blocks<kRows, true, false>(mode, in, out, shift, next, sums, squares);
      } else {
        blocks<kRows, true, true>(mode, in, out, shift, next, sums, squares);
      }
      first = false;
      NormStatistics<V> statistics[kRows];
      if (!from_moments(shift, sums, squares, statistics)) {
        for (std::size_t g = 0; g < kRows; ++g) {
          NormStatistics<V> one[1];
          const bool enough = from_moments({shift[g]}, {sums[g]}, {squares[g]}, one);
          statistics[g] =
              enough ? one[0] : careful_statistics<V>(options, cols, Memory<V>{in[g].s});
        }
      }
      for (std::size_t g = 0; g < kRows; ++g) {
        out[g] = {in[g].s, args.y.row(r + g).data(), statistics[g]};
        if (!args.statistics.empty()) args.statistics[r + g] = statistics[g];
      }
    }
    blocks<kRows, false, true>(mode, in, out, shift, last, no_sums, no_squares);
    return r;
  }

  /// s of a row too wide to wait: a block of it at a time, made again whenever it is needed.
  struct WideRow {
    const ResidualRow<S, B, Add::kGeneral> row;
    S* kept;  ///< where s goes, and can be had again; or null
    std::size_t cols;
    mutable std::size_t held = ~std::size_t{0};  ///< the block in `block`
    mutable V block[kBlock] = {};

    template <typename Count>
    HWY_INLINE Pack<V> operator()(std::size_t i, Count count) const {
      if (i / kBlock != held) make(i / kBlock);
      return load(block + i % kBlock, count);
    }
    HWY_NOINLINE void make(std::size_t wanted) const {
      held = wanted;
      const std::size_t begin = held * kBlock;
      for_each_pack(HWY_MIN(kBlock, cols - begin),
                    [&](auto, std::size_t i, auto count)
                        ADDNORM_BODY { store(row(begin + i, count), block + i, count); });
    }
    /// Stores s, which is not made again then: x or the branch may stand in the same place.
    HWY_NOINLINE void keep_all() const {
      for_each_pack(cols, [&](auto, std::size_t i, auto count)
                              ADDNORM_BODY { store((*this)(i, count), kept + i, count); });
    }
  };

  template <typename Source>
  HWY_NOINLINE void finish_wide_row(std::size_t r, const Source& s) const {
    const NormStatistics<V> found = statistics<V>(options, cols, s);
    const Normalize<V> normalize(found);
    B* y = args.y.row(r).data();
    for_each_pack(cols, [&](auto, std::size_t i, auto count) ADDNORM_BODY {
      store(affine<true, Affine::kGeneral>(normalize(s(i, count)), i, count), y + i, count);
    });
    if (!args.statistics.empty()) args.statistics[r] = found;
  }

  void wide_row(std::size_t r) const {
    const WideRow row{.row{args.add, r},
                      .kept = args.sum.empty() ? nullptr : args.sum.row(r).data(),
                      .cols = cols};
    if (row.kept == nullptr) return finish_wide_row(r, row);
    row.keep_all();
    finish_wide_row(r, Memory<S>{row.kept});
  }

  template <bool kCentredNorm, Add kAddMode, Affine kAffineMode, StoreTo kStoreTo>
  struct Mode {
    static constexpr bool kCentred = kCentredNorm;
    static constexpr Add kAdd = kAddMode;
    static constexpr Affine kAffine = kAffineMode;
    static constexpr StoreTo kTo = kStoreTo;
  };

  template <typename Mode>
  void rows(Mode mode, std::size_t begin, std::size_t end) const {
    if (kRowGroup * cols <= kWaiting) begin = groups<kRowGroup>(mode, begin, end);
    groups<1>(mode, begin, end);
  }

  template <bool kCentred, StoreTo kTo>
  void choose(std::size_t begin, std::size_t end) const {
    [[maybe_unused]] const bool affine = gamma.plain() && args.beta.empty() != kCentred;
    [[maybe_unused]] const bool plain_skip = args.add.skip.is_one();
    if constexpr (!kSpecialized<S, B>) {
      rows(Mode<true, Add::kGeneral, Affine::kGeneral, StoreTo::kCache>(), begin, end);
    } else if (affine && plain_skip && args.add.branch.empty()) {
      rows(Mode<kCentred, Add::kNone, Affine::kPlain, kTo>(), begin, end);
    } else if (affine && plain_skip && args.add.gain.is_one() && !args.add.dropout.active()) {
      rows(Mode<kCentred, Add::kPlain, Affine::kPlain, kTo>(), begin, end);
    } else {
      rows(Mode<true, Add::kGeneral, Affine::kGeneral, StoreTo::kCache>(), begin, end);
    }
  }

  void run(std::size_t begin, std::size_t end, bool past_cache) const {
    if (cols > kWaiting) {
      for (std::size_t r = begin; r < end; ++r) wide_row(r);
    } else if (past_cache) {
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
                  std::size_t end, bool past_cache) {
  HWY_ALIGN Arithmetic<S> waiting[kWaiting];
  ForwardLoop<S, B>(options, args, waiting).run(begin, end, past_cache);
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
  check_optional_length(kWhere, "gamma", args.gamma, cols);
  check_optional_length(kWhere, "beta", args.beta, cols);
  check_optional_length(kWhere, "statistics", args.statistics, rows);
}

}  // namespace

template <typename S, typename B>
void add_norm_forward(const NormOptions& options, const AddNormForward<S, B>& args) {
  check_forward(options, args);
  const std::size_t rows = args.add.x.rows;
  const std::size_t cols = args.add.x.cols;
  // In place nothing is won past the cache: what is overwritten stands there already.
  const bool past_cache = exceeds_cache(bytes_of(args.y) + bytes_of(args.sum)) &&
                          streamable(args.y) && streamable(args.sum) &&
                          !same_place(args.y, args.add.x) && !same_place(args.y, args.add.branch) &&
                          !same_place(args.sum, args.add.x) &&
                          !same_place(args.sum, args.add.branch);
  const ForwardRows<S, B> kernel = forward_kernel<S, B>();
  parallel_ranges(rows, row_grain(cols), kRowGroup, [&](std::size_t begin, std::size_t end) {
    kernel(options, args, begin, end, past_cache);
  });
}

#define ADDNORM_INSTANTIATE(S, B) \
  template void add_norm_forward(const NormOptions&, const AddNormForward<S, B>&);
ADDNORM_FOR_STORAGES(ADDNORM_INSTANTIATE)
#undef ADDNORM_INSTANTIATE

}  // namespace addnorm
#endif  // HWY_ONCE
