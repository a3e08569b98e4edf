#include "kernels/squash.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/parallel.h"
#include "kernels/block_sums.h"
#include "kernels/check.h"
#include "kernels/column_sums.h"
#include "kernels/dispatch.h"

#ifndef ADDNORM_KERNELS_SQUASH_CC
#define ADDNORM_KERNELS_SQUASH_CC
namespace addnorm::kernels {

/// u = α·s + shift.
template <typename V>
struct SquashInput {
  V alpha, shift;

  template <typename Args>
  SquashInput(const NormOptions& options, const Args& args)
      : alpha(args.alpha.empty() ? static_cast<V>(options.alpha) : args.alpha[0]),
        shift(args.shift.empty() ? V{0} : args.shift[0]) {}
};

/// Sums of a block of rows for the gradients of γ, β, α and the shift, for each feature.
template <typename V>
struct SquashSums {
  V* gamma;
  V* beta;
  V* alpha;
  V* shift;
};

/// Computes rows begin … end − 1.
template <typename S, typename B>
using SquashForwardRows = void (*)(const NormOptions&, const AddNormForward<S, B>&,
                                   const MatrixView<const S>& s, std::size_t begin,
                                   std::size_t end);
template <typename S, typename B>
using SquashBackwardRows = void (*)(const NormOptions&, const AddNormBackward<S, B>&,
                                    const SquashSums<Arithmetic<S>>&, std::size_t begin,
                                    std::size_t end);

}  // namespace addnorm::kernels
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/squash.cc"
#include <hwy/foreach_target.h>
//
#include "kernels/constant_block.h"
#include "kernels/feature_vector.h"
#include "kernels/math-inl.h"
#include "kernels/thread_memory.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

struct Tanh {
  template <typename V, std::size_t N>
  static HWY_INLINE Pack<V, N> value(const Pack<V, N>& u) {
    return tanh(u);
  }
  /// 1/cosh²(u), without the cancellation of 1 − tanh².
  template <typename V, std::size_t N>
  static HWY_INLINE Pack<V, N> slope(const Pack<V, N>& u) {
    const Pack<V, N> e = exp(set<N>(V{-2}) * abs(u));
    const Pack<V, N> sum = set<N>(V{1}) + e;
    return set<N>(V{4}) * e / (sum * sum);
  }
};

struct Erf {
  template <typename V, std::size_t N>
  static HWY_INLINE Pack<V, N> value(const Pack<V, N>& u) {
    return erf(u);
  }
  template <typename V, std::size_t N>
  static HWY_INLINE Pack<V, N> slope(const Pack<V, N>& u) {
    return exp(set<N>(V{0}) - u * u) * set<N>(2 * std::numbers::inv_sqrtpi_v<V>);
  }
};

/// Computes the function's values at u, and its slopes unless `slope` is null, in whole packs: each
/// array has room for kBlock values. Compiled once for each arithmetic type, not for each storage
/// of x and y.
template <typename F, typename V>
HWY_NOINLINE void evaluate(F, std::size_t n, const V* u, V* value, V* slope) {
  constexpr std::size_t kN = kSmallPack<V>;
  for (std::size_t i = 0; i < n; i += kN) {
    const Pack<V, kN> at = load<kN>(u + i, Full());
    if (slope != nullptr) store(F::slope(at), slope + i, Full());
    store(F::value(at), value + i, Full());
  }
}
template <typename V>
void evaluate(NormKind kind, std::size_t n, const V* u, V* value, V* slope) {
  if (kind == NormKind::kDyT) {
    evaluate(Tanh(), n, u, value, slope);
  } else {
    evaluate(Erf(), n, u, value, slope);
  }
}

/// u = α·s + shift for n values.
template <typename S, typename V>
HWY_INLINE void scale_input(const SquashInput<V>& inner, std::size_t n, const S* s, V* u) {
  constexpr std::size_t kN = kSmallPack<V>;
  for_each_pack<kN>(n, [&](std::size_t i, auto count) ADDNORM_BODY {
    store(load<kN>(s + i, count) * set<kN>(inner.alpha) + set<kN>(inner.shift), u + i, count);
  });
  std::fill_n(u + n, (kN - n % kN) % kN, V{0});
}

template <typename S, typename B>
void squash_rows_forward(const NormOptions& options, const AddNormForward<S, B>& args,
                         const MatrixView<const S>& s, std::size_t begin, std::size_t end) {
  using V = Arithmetic<S>;
  constexpr std::size_t kN = kSmallPack<V>;
  const SquashInput<V> inner(options, args);
  FeatureVector<V> gammas = FeatureVector<V>::gamma(options, args.gamma);
  FeatureVector<V> betas = FeatureVector<V>::beta(options, args.beta);
  gammas.stage(thread_region<V>(0), s.cols, false);
  betas.stage(thread_region<V>(1), s.cols, false);
  V* const u = thread_region<V>(2);
  for (std::size_t r = begin; r < end; ++r) {
    for (std::size_t column = 0; column < s.cols; column += kBlock) {
      const std::size_t n = HWY_MIN(kBlock, s.cols - column);
      B* const y = args.y.row(r).data() + column;
      const V* const gamma = gammas.at(column, n);
      const V* const beta = betas.at(column, n);
      scale_input(inner, n, s.row(r).data() + column, u);
      evaluate<V>(options.kind, n, u, u, nullptr);
      for_each_pack<kN>(n, [&](std::size_t i, auto count) ADDNORM_BODY {
        const Pack<V, kN> scaled = load<kN>(gamma + i, count) * load<kN>(u + i, count);
        store(scaled + load<kN>(beta + i, count), y + i, count);
      });
    }
  }
}

template <typename S, typename B>
void squash_rows_backward(const NormOptions& options, const AddNormBackward<S, B>& args,
                          const SquashSums<Arithmetic<S>>& sums, std::size_t begin,
                          std::size_t end) {
  using V = Arithmetic<S>;
  constexpr std::size_t kN = kSmallPack<V>;
  const std::size_t cols = args.s.cols;
  const SquashInput<V> inner(options, args);
  FeatureVector<V> gammas = FeatureVector<V>::gamma(options, args.gamma);
  FeatureVector<V> skips = FeatureVector<V>::scale(args.skip);
  gammas.stage(thread_region<V>(0), cols, false);
  skips.stage(thread_region<V>(1), cols, false);
  V* const value = thread_region<V>(2);  // first holds u
  V* const slope = thread_region<V>(3);
  for (std::size_t r = begin; r < end; ++r) {
    for (std::size_t column = 0; column < cols; column += kBlock) {
      const std::size_t n = HWY_MIN(kBlock, cols - column);
      const S* const in = args.s.row(r).data() + column;
      const B* const dy_row = args.dy.row(r).data() + column;
      const S* const past =
          args.d_residual.empty() ? minus_zeros<S>() : args.d_residual.row(r).data() + column;
      S* const dx = args.dx.row(r).data() + column;
      const V* const gamma = gammas.at(column, n);
      const V* const skip = skips.at(column, n);
      scale_input(inner, n, in, value);
      evaluate<V>(options.kind, n, value, value, slope);
      for_each_pack<kN>(n, [&](std::size_t i, auto count) ADDNORM_BODY {
        const auto add = [&](V* to, const Pack<V, kN>& term) ADDNORM_BODY {
          V* const at = to + column + i;
          store(load<kN>(at, count) + term, at, count);
        };
        const Pack<V, kN> x = load<kN>(in + i, count), dy = load<kN>(dy_row + i, count);
        const Pack<V, kN> du = load<kN>(gamma + i, count) * dy * load<kN>(slope + i, count);
        const Pack<V, kN> around = load<kN>(skip + i, count) * load<kN>(past + i, count);
        store(around + du * set<kN>(inner.alpha), dx + i, count);
        add(sums.gamma, dy * load<kN>(value + i, count));
        add(sums.beta, dy);
        add(sums.alpha, du * x);
        add(sums.shift, du);
      });
    }
  }
}

ADDNORM_TABLE(squash_forward_table, SquashForwardRows, squash_rows_forward)
ADDNORM_TABLE(squash_backward_table, SquashBackwardRows, squash_rows_backward)

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace addnorm::kernels {
namespace {

HWY_EXPORT(squash_forward_table);
HWY_EXPORT(squash_backward_table);
ADDNORM_KERNEL_OF(squash_forward_kernel, SquashForwardRows, squash_forward_table,
                  squash_rows_forward)
ADDNORM_KERNEL_OF(squash_backward_kernel, SquashBackwardRows, squash_backward_table,
                  squash_rows_backward)

/// Checks the arguments that forward and backward share.
template <typename Args>
void check_squash(std::string_view where, const NormOptions& options, const Args& args,
                  std::size_t cols) {
  require(std::isfinite(options.output_scale), "{}: output_scale is {}, must be finite", where,
          options.output_scale);
  require(std::isfinite(options.alpha), "{}: alpha is {}, must be finite", where, options.alpha);
  check_optional_length(where, "gamma", args.gamma, cols);
  check_optional_length(where, "alpha", args.alpha, 1);
  check_optional_length(where, "shift", args.shift, 1);
  check_length(where, "statistics", args.statistics, 0);
}

}  // namespace

template <typename S, typename B>
void squash_forward(std::string_view where, const NormOptions& options,
                    const AddNormForward<S, B>& args) {
  const std::size_t cols = args.add.x.cols;
  check_squash(where, options, args, cols);
  check_optional_length(where, "beta", args.beta, cols);
  const bool sums = !args.add.branch.empty() || !args.add.skip.is_one();
  require(!sums || !args.sum.empty() || args.add.x.rows == 0,
          "{}: sum is absent; dyt and derf need one for what they squash", where);
  MatrixView<const S> s = args.add.x;
  if (!args.sum.empty()) {
    residual_add<S, B>(args.add, args.sum);
    s = args.sum;
  }
  const SquashForwardRows<S, B> kernel = squash_forward_kernel<S, B>();
  parallel_ranges(s.rows, row_grain(cols), 1, [&](std::size_t begin, std::size_t end) {
    kernel(options, args, s, begin, end);
  });
}

template <typename S, typename B>
void squash_backward(std::string_view where, const NormOptions& options,
                     const AddNormBackward<S, B>& args) {
  using V = Arithmetic<S>;
  const std::size_t rows = args.s.rows;
  const std::size_t cols = args.s.cols;
  check_squash(where, options, args, cols);
  check_optional_length(where, "d_gamma", args.d_gamma, cols);
  check_optional_length(where, "d_beta", args.d_beta, cols);
  check_optional_length(where, "d_alpha", args.d_alpha, 1);
  check_optional_length(where, "d_shift", args.d_shift, 1);
  const std::size_t needed = squash_workspace(rows, cols);
  require(args.workspace.size() >= needed, "{}: workspace has {} values, must have at least {}",
          where, args.workspace.size(), needed);

  const RowBlocks blocks(rows, cols);
  const std::size_t size = blocks.count * cols;
  V* const sums = args.workspace.data();
  std::fill_n(sums, needed, V{0});
  const SquashBackwardRows<S, B> kernel = squash_backward_kernel<S, B>();
  parallel_for(blocks.count, 1, [&](std::size_t b) {
    V* const here = sums + b * cols;
    kernel(options, args, {here, here + size, here + 2 * size, here + 3 * size}, b * blocks.rows,
           std::min(rows, (b + 1) * blocks.rows));
  });

  const GradientMode mode = args.parameter_gradients;
  const V factor = static_cast<V>(options.output_scale);
  add_block_sums(sums, blocks.count, factor, mode, args.d_gamma);
  add_block_sums(sums + size, blocks.count, factor, mode, args.d_beta);
  const auto add_all = [&](const V* values, std::span<V> gradient) {
    if (gradient.empty()) return;
    V total = 0;
    add_column_sums<V>(blocks.count, cols, std::span(&total, 1),
                       [&](std::size_t b, std::size_t i) { return values[b * cols + i]; });
    gradient[0] = mode == GradientMode::kOverwrite ? total : gradient[0] + total;
  };
  add_all(sums + 2 * size, args.d_alpha);
  add_all(sums + 3 * size, args.d_shift);
}

std::size_t squash_workspace(std::size_t rows, std::size_t features) {
  return 4 * RowBlocks(rows, features).count * features;
}

#define ADDNORM_INSTANTIATE(S, B)                                                                  \
  template void squash_forward(std::string_view, const NormOptions&, const AddNormForward<S, B>&); \
  template void squash_backward(std::string_view, const NormOptions&, const AddNormBackward<S, B>&);
ADDNORM_FOR_STORAGES(ADDNORM_INSTANTIATE)
#undef ADDNORM_INSTANTIATE

}  // namespace addnorm::kernels
#endif  // HWY_ONCE
