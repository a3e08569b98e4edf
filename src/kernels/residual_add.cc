#include "kernels/residual_add.h"

#include "base/parallel.h"
#include "kernels/column_sums.h"

namespace addnorm {

template <typename T>
void residual_add(const ResidualAdd<T>& add, MatrixView<T> sum) {
  check_residual_add("residual_add", add);
  check_shape("residual_add", "sum", sum, add.x.rows, add.x.cols);
  parallel_for(add.x.rows, row_grain(add.x.cols),
               [&](std::size_t r) { residual_add_row(add, r, sum.row(r).data()); });
}

template <typename T>
void residual_add_backward(const ResidualAddBackward<T>& args) {
  const MatrixView<const T> x = args.add.x;
  const MatrixView<const T> branch = args.add.branch;
  const MatrixView<const T> d_sum = args.d_sum;
  const Dropout& dropout = args.add.dropout;
  const std::size_t rows = d_sum.rows;
  const std::size_t cols = d_sum.cols;
  constexpr const char* kWhere = "residual_add_backward";
  check_residual_add(kWhere, args.add);
  check_shape(kWhere, "d_sum", d_sum, x.rows, x.cols);
  check_optional_shape(kWhere, "d_branch", args.d_branch, rows, cols);
  if (!args.d_gain.empty()) check_shape(kWhere, "branch", branch, rows, cols);
  if (args.d_skip.size() != 1) check_optional_length(kWhere, "d_skip", args.d_skip, cols);
  if (args.d_gain.size() != 1) check_optional_length(kWhere, "d_gain", args.d_gain, cols);

  if (!args.d_skip.empty()) {
    add_column_sums<T>(rows, cols, args.d_skip,
                       [&](std::size_t r, std::size_t i) { return x(r, i) * d_sum(r, i); });
  }
  if (!args.d_gain.empty()) {
    add_column_sums<T>(rows, cols, args.d_gain, [&](std::size_t r, std::size_t i) {
      T kept = 1;
      if (dropout.active()) dropout_factors<T>(dropout, r * cols + i, {&kept, 1});
      return (kept * branch(r, i)) * d_sum(r, i);
    });
  }
  if (args.d_branch.empty()) return;
  parallel_for(rows, row_grain(cols), [&](std::size_t r) {
    T* df = args.d_branch.row(r).data();
    const T* ds = d_sum.row(r).data();
    for_each_kept(args.add, r,
                  [&](std::size_t i, T kept) { df[i] = args.add.gain[i] * (kept * ds[i]); });
  });
}

template void residual_add(const ResidualAdd<float>&, MatrixView<float>);
template void residual_add(const ResidualAdd<double>&, MatrixView<double>);
template void residual_add_backward(const ResidualAddBackward<float>&);
template void residual_add_backward(const ResidualAddBackward<double>&);

}  // namespace addnorm
