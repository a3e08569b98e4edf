#include "kernels/residual_add.h"

#include "base/parallel.h"
#include "kernels/column_sums.h"
#include "kernels/dispatch.h"
#include "kernels/dropout.h"

#ifndef ADDNORM_KERNELS_RESIDUAL_ADD_CC
#define ADDNORM_KERNELS_RESIDUAL_ADD_CC
namespace addnorm::kernels {

/// Computes rows begin … end − 1.
template <typename S, typename B>
using AddRows = void (*)(const ResidualAdd<S, B>&, const MatrixView<S>& sum, std::size_t begin,
                         std::size_t end);
template <typename S, typename B>
using BranchRows = void (*)(const ResidualAddBackward<S, B>&, std::size_t begin, std::size_t end);

}  // namespace addnorm::kernels
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/residual_add.cc"
#include <hwy/foreach_target.h>
//
#include "kernels/residual-inl.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

template <bool kOptions, typename S, typename B>
HWY_NOINLINE void add_block(const ResidualRows<S, B>& rows, std::size_t r, std::size_t column,
                            std::size_t n, S* sum) {
  const auto block = rows.template block<kOptions>(r, column, n);
  for_each_pack(n, [&](std::size_t i, auto count) ADDNORM_BODY {
    store(block.template exact<kPack>(i, count), sum + i, count);
  });
}

template <typename S, typename B>
void add_rows(const ResidualAdd<S, B>& add, const MatrixView<S>& sum, std::size_t begin,
              std::size_t end) {
  const bool options = !is_plain(add);
  const ResidualRows<S, B> rows(add, options, 0);
  for (std::size_t r = begin; r < end; ++r) {
    for (std::size_t column = 0; column < add.x.cols; column += kBlock) {
      const std::size_t n = HWY_MIN(kBlock, add.x.cols - column);
      S* const to = sum.row(r).data() + column;
      options ? add_block<true>(rows, r, column, n, to) : add_block<false>(rows, r, column, n, to);
    }
  }
}

template <typename S, typename B>
void branch_rows(const ResidualAddBackward<S, B>& args, std::size_t begin, std::size_t end) {
  using V = Arithmetic<S>;
  const std::size_t cols = args.d_sum.cols;
  const Dropout& dropout = args.add.dropout;
  FeatureVector<V> gains = FeatureVector<V>::scale(args.add.gain);
  gains.stage(thread_region<V>(0), cols, false);
  V* const factors = thread_region<V>(1);
  for (std::size_t r = begin; r < end; ++r) {
    for (std::size_t column = 0; column < cols; column += kBlock) {
      const std::size_t n = HWY_MIN(kBlock, cols - column);
      const S* const d_sum = args.d_sum.row(r).data() + column;
      B* const d_branch = args.d_branch.row(r).data() + column;
      const V* const gain = gains.at(column, n);
      if (dropout.active()) dropout_factors(dropout, r * cols + column, n, factors);
      for_each_pack(n, [&](std::size_t i, auto count) ADDNORM_BODY {
        Pack<V> d = load(d_sum + i, count);
        if (dropout.active()) d = load(factors + i, Full()) * d;
        store(load(gain + i, count) * d, d_branch + i, count);
      });
    }
  }
}

ADDNORM_TABLE(add_table, AddRows, add_rows)
ADDNORM_TABLE(branch_table, BranchRows, branch_rows)

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace addnorm::kernels {
namespace {

HWY_EXPORT(add_table);
HWY_EXPORT(branch_table);
ADDNORM_KERNEL_OF(add_kernel, AddRows, add_table, add_rows)
ADDNORM_KERNEL_OF(branch_kernel, BranchRows, branch_table, branch_rows)

}  // namespace

}  // namespace addnorm::kernels

namespace addnorm {

template <typename S, typename B>
void residual_add(const ResidualAdd<S, B>& add, MatrixView<S> sum, std::size_t threads) {
  const ThreadCount count(threads);
  kernels::check_residual_add("residual_add", add);
  kernels::check_shape("residual_add", "sum", sum, add.x.rows, add.x.cols);
  kernels::ArgumentMemory memory("residual_add");
  memory.write("sum", sum, kernels::read_inputs(add, memory));
  const kernels::AddRows<S, B> kernel = kernels::add_kernel<S, B>();
  parallel_ranges(add.x.rows, row_grain(add.x.cols), 1,
                  [&](std::size_t begin, std::size_t end) { kernel(add, sum, begin, end); });
}

template <typename S, typename B>
void residual_add_backward(const ResidualAddBackward<S, B>& args, std::size_t threads) {
  const ThreadCount count(threads);
  using V = Arithmetic<S>;
  const MatrixView<const S> x = args.add.x;
  const MatrixView<const B> branch = args.add.branch;
  const MatrixView<const S> d_sum = args.d_sum;
  const std::size_t rows = d_sum.rows;
  const std::size_t cols = d_sum.cols;
  constexpr const char* kWhere = "residual_add_backward";
  kernels::check_residual_add(kWhere, args.add);
  kernels::check_shape(kWhere, "d_sum", d_sum, x.rows, x.cols);
  kernels::check_optional_shape(kWhere, "d_branch", args.d_branch, rows, cols);
  if (!args.d_gain.empty()) kernels::check_shape(kWhere, "branch", branch, rows, cols);
  if (args.d_skip.size() != 1) kernels::check_optional_length(kWhere, "d_skip", args.d_skip, cols);
  if (args.d_gain.size() != 1) kernels::check_optional_length(kWhere, "d_gain", args.d_gain, cols);
  kernels::ArgumentMemory memory(kWhere);
  kernels::read_inputs(args.add, memory);
  memory.write("d_branch", args.d_branch, memory.read("d_sum", d_sum));
  memory.write("d_skip", args.d_skip);
  memory.write("d_gain", args.d_gain);

  auto value = [](const auto& matrix, std::size_t r, std::size_t i) {
    return static_cast<V>(matrix(r, i));
  };
  if (!args.d_skip.empty()) {
    kernels::add_column_sums<V>(rows, cols, args.d_skip, [&](std::size_t r, std::size_t i) {
      return value(x, r, i) * value(d_sum, r, i);
    });
  }
  if (!args.d_gain.empty()) {
    kernels::add_column_sums<V>(rows, cols, args.d_gain, [&](std::size_t r, std::size_t i) {
      const V kept = kernels::dropout_factor<V>(args.add.dropout, r * cols + i);
      return (kept * value(branch, r, i)) * value(d_sum, r, i);
    });
  }
  if (args.d_branch.empty()) return;
  const kernels::BranchRows<S, B> kernel = kernels::branch_kernel<S, B>();
  parallel_ranges(rows, row_grain(cols), 1,
                  [&](std::size_t begin, std::size_t end) { kernel(args, begin, end); });
}

#define ADDNORM_INSTANTIATE(S, B)                                                   \
  template void residual_add(const ResidualAdd<S, B>&, MatrixView<S>, std::size_t); \
  template void residual_add_backward(const ResidualAddBackward<S, B>&, std::size_t);
ADDNORM_FOR_STORAGES(ADDNORM_INSTANTIATE)
#undef ADDNORM_INSTANTIATE

}  // namespace addnorm
#endif  // HWY_ONCE
