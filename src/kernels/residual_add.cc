#include "kernels/residual_add.h"

#include "base/parallel.h"
#include "kernels/column_sums.h"
#include "kernels/dispatch.h"
#include "kernels/dropout.h"
#include "kernels/storages.h"

namespace addnorm::kernels {

/// Both compute rows begin … end − 1.
ADDNORM_DECLARE_KERNEL(template <typename S, typename B>
                       void add_rows(const ResidualAdd<S, B>&, const MatrixView<S>& sum,
                                     std::size_t begin, std::size_t end);)
ADDNORM_DECLARE_KERNEL(template <typename S, typename B>
                       void branch_rows(const ResidualAddBackward<S, B>&, std::size_t begin,
                                        std::size_t end);)

}  // namespace addnorm::kernels

namespace addnorm {

template <typename S, typename B>
void residual_add(const ResidualAdd<S, B>& add, MatrixView<S> sum, std::size_t threads) {
  const ThreadCount count(threads);
  kernels::check_residual_add("residual_add", add);
  kernels::check_shape("residual_add", "sum", sum, add.x.rows, add.x.cols);
  kernels::ArgumentMemory memory("residual_add");
  memory.write("sum", sum, kernels::read_inputs(add, memory));
  const auto kernel = ADDNORM_KERNEL(S, add_rows<S, B>);
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
  if (!args.d_gain.empty() || !args.d_sample_gain.empty()) {
    kernels::check_shape(kWhere, "branch", branch, rows, cols);
  }
  kernels::check_optional_shape(kWhere, "d_sample_gain", args.d_sample_gain,
                                args.add.sample_gain.rows, cols);
  if (args.d_skip.size() != 1) kernels::check_optional_length(kWhere, "d_skip", args.d_skip, cols);
  if (args.d_gain.size() != 1) kernels::check_optional_length(kWhere, "d_gain", args.d_gain, cols);
  kernels::ArgumentMemory memory(kWhere);
  kernels::read_inputs(args.add, memory);
  memory.write("d_branch", args.d_branch, memory.read("d_sum", d_sum));
  memory.write("d_skip", args.d_skip);
  memory.write("d_gain", args.d_gain);
  memory.write("d_sample_gain", args.d_sample_gain);

  auto value = [](const auto& matrix, std::size_t r, std::size_t i) {
    return static_cast<V>(matrix(r, i));
  };
  if (!args.d_skip.empty()) {
    kernels::add_column_sums<V>(rows, cols, args.d_skip, [&](std::size_t r, std::size_t i) {
      return value(x, r, i) * value(d_sum, r, i);
    });
  }
  const auto term_of_gain = [&](std::size_t r, std::size_t i) {
    const V kept = kernels::dropout_factor<V>(args.add.dropout, r * cols + i);
    return (kept * value(branch, r, i)) * value(d_sum, r, i);
  };
  if (!args.d_gain.empty()) {
    kernels::add_column_sums<V>(rows, cols, args.d_gain, term_of_gain);
  }
  const MatrixView<V>& by_sample = args.d_sample_gain;
  for (std::size_t sample = 0; sample < by_sample.rows; ++sample) {
    const std::size_t of_sample = rows / by_sample.rows, first = sample * of_sample;
    kernels::add_column_sums<V>(
        of_sample, cols, by_sample.row(sample),
        [&](std::size_t r, std::size_t i) { return term_of_gain(first + r, i); });
  }
  if (args.d_branch.empty()) return;
  const auto kernel = ADDNORM_KERNEL(S, branch_rows<S, B>);
  parallel_ranges(rows, row_grain(cols), 1,
                  [&](std::size_t begin, std::size_t end) { kernel(args, begin, end); });
}

#define ADDNORM_INSTANTIATE(S, B)                                                   \
  template void residual_add(const ResidualAdd<S, B>&, MatrixView<S>, std::size_t); \
  template void residual_add_backward(const ResidualAddBackward<S, B>&, std::size_t);
ADDNORM_FOR_STORAGES(ADDNORM_INSTANTIATE)
#undef ADDNORM_INSTANTIATE

}  // namespace addnorm
