#include "addnorm/norm.h"
#include "base/parallel.h"
#include "kernels/cache.h"
#include "kernels/check.h"
#include "kernels/dispatch.h"

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
  bool past_cache;
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
#include "kernels/residual-inl.h"
#include "kernels/row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm {
namespace HWY_NAMESPACE {

// As in forward: a row's s and dy are read from memory once, where Σg and Σg·x̂ and the parameters'
// gradients are summed. With these, s and dy, which the caches still hold, become dx, in the loop
// that already reads the next rows.

template <typename S, typename B>
struct BackwardLoop {
  using V = Arithmetic<S>;

  const NormOptions& options;
  const AddNormBackward<S, B>& args;
  const BackwardRange<V>& range;
  const std::size_t cols;
  const bool centred;
  const GammaPacks<V> gamma;
  const V inverse_count;
  const V inverse_divisor;

  BackwardLoop(const NormOptions& o, const AddNormBackward<S, B>& a, const BackwardRange<V>& r)
      : options(o),
        args(a),
        range(r),
        cols(a.s.cols),
        centred(o.kind != NormKind::kRms),
        gamma{o, a.gamma},
        inverse_count(V{1} / static_cast<V>(cols)),
        inverse_divisor(V{1} / variance_divisor<V>(o, cols)) {}

  /// Whether a mode knows all that is asked, or must look.
  template <bool kCentredNorm, Add kResidualAdd, bool kAsked, StoreTo kStoreTo>
  struct Mode {
    static constexpr bool kCentred = kCentredNorm;
    static constexpr Add kResidual = kResidualAdd;
    static constexpr bool kKnown = !kAsked;  ///< plain γ, its gradient, and β's where centred
    static constexpr StoreTo kTo = kStoreTo;
  };

  template <typename Mode, typename Count>
  HWY_INLINE Pack<V> upstream(const Pack<V>& dy, std::size_t i, Count count) const {
    if constexpr (Mode::kKnown) {
      return dy * load(args.gamma.data() + i, count);
    } else {
      return dy * gamma(i, count);
    }
  }

  template <typename Mode, typename Count>
  HWY_INLINE void add_parameter_gradients(const Pack<V>& dy, const Pack<V>& x_hat, std::size_t i,
                                          Count count) const {
    if (Mode::kKnown || range.d_gamma != nullptr) {
      store(load(range.d_gamma + i, count) + dy * x_hat, range.d_gamma + i, count);
    }
    if (Mode::kKnown ? Mode::kCentred : range.d_beta != nullptr) {
      store(load(range.d_beta + i, count) + dy, range.d_beta + i, count);
    }
  }

  template <typename Mode, typename Count>
  HWY_INLINE Pack<V> with_residual(const Pack<V>& dx, const S* past, std::size_t i,
                                   Count count) const {
    if constexpr (Mode::kResidual == Add::kNone) return dx;
    if constexpr (Mode::kResidual == Add::kPlain) return load(past + i, count) + dx;
    if (past == nullptr) return dx;
    return scale_pack(args.skip, i, count) * load(past + i, count) + dx;
  }

  /// One block of columns: sums of row `in`, dx of row `out`, or both.
  template <typename Mode, bool kReads, bool kWrites>
  HWY_NOINLINE void sweep(std::size_t in, std::size_t out, V shift_in, const RowSums<V>& sums_out,
                          std::size_t begin, Pack<V>& sum, Pack<V>& projected) const {
    const S* s_in = args.s.row(in).data();
    const B* dy_in = args.dy.row(in).data();
    const S* s_out = args.s.row(out).data();
    const B* dy_out = args.dy.row(out).data();
    const S* past = args.d_residual.empty() ? nullptr : args.d_residual.row(out).data();
    S* dx = args.dx.row(out).data();
    const Normalize<V> normalize_in(args.statistics[in]);
    const Normalize<V> normalize_out(args.statistics[out]);
    const Pack<V> factor = set(args.statistics[out].reciprocal * args.statistics[out].scale);
    const Pack<V> shift = set(shift_in);
    const Pack<V> shift_out = set(sums_out.shift);
    const Pack<V> mean = set(sums_out.mean);
    const Pack<V> projection = set(sums_out.projection);
    Lanes<V> sums, projections;
    for_each_pack(HWY_MIN(kBlock, cols - begin),
                  [&](auto parity, std::size_t at, auto count) ADDNORM_BODY {
                    const std::size_t i = begin + at;
                    if constexpr (kReads) {
                      const Pack<V> dy = load(dy_in + i, count);
                      const Pack<V> x_hat = normalize_in(load(s_in + i, count));
                      Pack<V> g = upstream<Mode>(dy, i, count);
                      if constexpr (Mode::kCentred) {
                        g = g - shift;
                        sums.add(parity, keep(g, count));
                      }
                      projections.add(parity, keep(g * x_hat, count));
                      add_parameter_gradients<Mode>(dy, x_hat, i, count);
                    }
                    if constexpr (kWrites) {
                      const Pack<V> x_hat = normalize_out(load(s_out + i, count));
                      Pack<V> g = upstream<Mode>(load(dy_out + i, count), i, count);
                      if constexpr (Mode::kCentred) g = (g - shift_out) - mean;
                      const Pack<V> d_norm = (g - x_hat * projection) * factor;
                      store<Mode::kTo>(with_residual<Mode>(d_norm, past, i, count), dx + i, count);
                    }
                  });
    sum = sums.total();
    projected = projections.total();
  }

  template <std::size_t kRows, bool kReads, bool kWrites, typename Mode>
  HWY_NOINLINE void blocks(Mode, std::size_t in, std::size_t out, const V (&shift)[kRows],
                           const RowSums<V> (&sums_out)[kRows], V (&sums)[kRows],
                           V (&projections)[kRows]) const {
    for (std::size_t begin = 0; begin < cols; begin += kBlock) {
      Pack<V> sum[kRows], projected[kRows];
      for (std::size_t g = 0; g < kRows; ++g) {
        sweep<Mode, kReads, kWrites>(in + g, out + g, shift[g], sums_out[g], begin, sum[g],
                                     projected[g]);
      }
      if constexpr (kReads) {
        V part[kRows];
        if constexpr (Mode::kCentred) {
          tree_sums(sum, part);
          for (std::size_t g = 0; g < kRows; ++g) sums[g] += part[g];
        }
        tree_sums(projected, part);
        for (std::size_t g = 0; g < kRows; ++g) projections[g] += part[g];
      }
    }
  }

  template <std::size_t kRows, typename Mode>
  HWY_NOINLINE std::size_t groups(Mode mode, std::size_t r, std::size_t end) const {
    if (r + kRows > end) return r;
    RowSums<V> rows[kRows];
    V shift[kRows] = {}, sums[kRows], projections[kRows];
    bool first = true;
    for (; r + kRows <= end; r += kRows) {
      if (Mode::kCentred && centred) {
        Pack<V> heads[kRows];
        for (std::size_t g = 0; g < kRows; ++g) {
          const B* dy = args.dy.row(r + g).data();
          heads[g] = head<V>(cols, [&](std::size_t i, auto count) ADDNORM_BODY {
            return upstream<Mode>(load(dy + i, count), i, count);
          });
        }
        tree_sums(heads, shift);
        for (V& s : shift) s = s / head_size<V>(cols);
      }
      for (std::size_t g = 0; g < kRows; ++g) sums[g] = projections[g] = 0;
      if (first) {
        blocks<kRows, true, false>(mode, r, r, shift, rows, sums, projections);
      } else {
        blocks<kRows, true, true>(mode, r, r - kRows, shift, rows, sums, projections);
      }
      first = false;
      for (std::size_t g = 0; g < kRows; ++g) {
        const V ratio = args.statistics[r + g].epsilon_ratio;
        rows[g] = {shift[g], centred ? sums[g] * inverse_count : V{0},
                   projections[g] * inverse_divisor * ratio};
      }
    }
    blocks<kRows, false, true>(mode, r - kRows, r - kRows, shift, rows, sums, projections);
    return r;
  }

  template <bool kCentred, StoreTo kTo>
  void choose() const {
    [[maybe_unused]] const bool known =
        gamma.plain() && range.d_gamma != nullptr && (range.d_beta != nullptr) == kCentred;
    if constexpr (!kSpecialized<S, B>) {
      rows(Mode<true, Add::kGeneral, true, StoreTo::kCache>());
    } else if (known && args.d_residual.empty()) {
      rows(Mode<kCentred, Add::kNone, false, kTo>());
    } else if (known && args.skip.is_one()) {
      rows(Mode<kCentred, Add::kPlain, false, kTo>());
    } else {
      rows(Mode<true, Add::kGeneral, true, StoreTo::kCache>());
    }
  }
  template <typename Mode>
  void rows(Mode mode) const {
    groups<1>(mode, groups<kRowGroup>(mode, range.begin, range.end), range.end);
  }

  void run() const {
    for (V* gradient : {range.d_gamma, range.d_beta}) {
      if (gradient != nullptr) std::fill_n(gradient, cols, V{0});
    }
    if (range.past_cache) {
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
  BackwardLoop<S, B>(options, args, range).run();
}

ADDNORM_TABLE(backward_table, BackwardRows, rows_backward)

template <typename V>
void sum_partials(const PartialSums<V>& sums, std::size_t begin, std::size_t end) {
  for_each_pack(end - begin, [&](auto, std::size_t at, auto count) ADDNORM_BODY {
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

std::size_t rows_per_block(std::size_t rows) {
  const std::size_t even = (rows + kMaxBlocks - 1) / kMaxBlocks;
  return std::max<std::size_t>(16, (even + kRowGroup - 1) / kRowGroup * kRowGroup);
}
std::size_t count_blocks(std::size_t rows) {
  return (rows + rows_per_block(rows) - 1) / rows_per_block(rows);
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
            "{}: workspace has {} values, must have {}", kWhere, args.workspace.size(),
            add_norm_workspace(rows, cols));
  }
}

/// The gradient of γ or β from the sums of the blocks.
template <typename S, typename B, typename V = Arithmetic<S>>
void add_blocks(const NormOptions& options, const AddNormBackward<S, B>& args, const V* partials,
                std::span<V> gradient) {
  if (gradient.empty()) return;
  const PartialSums<V> sums{partials,        count_blocks(args.s.rows),
                            gradient.size(), static_cast<V>(options.output_scale),
                            gradient.data(), args.parameter_gradients == GradientMode::kAccumulate};
  parallel_ranges(gradient.size(), row_grain(sums.blocks), 16,
                  [&](std::size_t begin, std::size_t end) {
                    if constexpr (std::is_same_v<V, float>) {
                      ADDNORM_DISPATCH(add_partials)(sums, begin, end);
                    } else {
                      HWY_STATIC_DISPATCH(sum_partials)<V>(sums, begin, end);
                    }
                  });
}

}  // namespace

std::size_t add_norm_workspace(std::size_t rows, std::size_t features) {
  return 2 * count_blocks(rows) * features;
}

template <typename S, typename B>
void add_norm_backward(const NormOptions& options, const AddNormBackward<S, B>& args) {
  using V = Arithmetic<S>;
  check_backward(options, args);
  const std::size_t rows = args.s.rows;
  const std::size_t cols = args.s.cols;
  const std::size_t blocks = count_blocks(rows);
  const std::size_t block_rows = rows_per_block(rows);
  V* gamma_blocks = args.d_gamma.empty() ? nullptr : args.workspace.data();
  V* beta_blocks = args.d_beta.empty() ? nullptr : args.workspace.data() + blocks * cols;
  // In place nothing is won past the cache: what is overwritten stands there already.
  const bool past_cache = exceeds_cache(bytes_of(args.dx)) && streamable(args.dx) &&
                          !same_place(args.dx, args.dy) && !same_place(args.dx, args.d_residual);

  const BackwardRows<S, B> kernel = backward_kernel<S, B>();
  parallel_for(blocks, row_grain(cols * block_rows), [&](std::size_t b) {
    auto place = [&](V* partials) { return partials == nullptr ? nullptr : partials + b * cols; };
    const BackwardRange<V> range{b * block_rows, std::min(rows, (b + 1) * block_rows),
                                 place(gamma_blocks), place(beta_blocks), past_cache};
    kernel(options, args, range);
  });
  add_blocks(options, args, gamma_blocks, args.d_gamma);
  add_blocks(options, args, beta_blocks, args.d_beta);
}

#define ADDNORM_INSTANTIATE(S, B) \
  template void add_norm_backward(const NormOptions&, const AddNormBackward<S, B>&);
ADDNORM_FOR_STORAGES(ADDNORM_INSTANTIATE)
#undef ADDNORM_INSTANTIATE

}  // namespace addnorm
#endif  // HWY_ONCE
