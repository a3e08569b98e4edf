#include "addnorm/norm.h"
#include "base/parallel.h"
#include "kernels/residual_add.h"
#include "kernels/row.h"

namespace addnorm {
namespace {

/// γ's and β's gradients are summed over rows in blocks, at most this many; each block's sum has a
/// place of its own in the workspace, and the blocks are added in order.
constexpr std::size_t kMaxBlocks = 64;

std::size_t rows_per_block(std::size_t rows) {
  return std::max<std::size_t>(16, (rows + kMaxBlocks - 1) / kMaxBlocks);
}
std::size_t count_blocks(std::size_t rows) {
  return (rows + rows_per_block(rows) - 1) / rows_per_block(rows);
}

template <typename T>
void check_row_kind(std::string_view where, const NormOptions& options) {
  require(options.kind == NormKind::kLayer || options.kind == NormKind::kRms,
          "{}: the kind must be kLayer or kRms; the others are channel_norm_forward's", where);
}

/// y = γ ⊙ x̂ + β for one row.
template <typename T>
void normalize_row(const NormOptions& options, const NormStatistics<T>& s, const T* x,
                   std::size_t cols, const T* gamma, const T* beta, T* y) {
  const T output_scale = static_cast<T>(options.output_scale);
  if (gamma == nullptr && beta == nullptr && output_scale == 1) {
    for (std::size_t i = 0; i < cols; ++i) y[i] = row::normalized(s, x[i]);
    return;
  }
  for (std::size_t i = 0; i < cols; ++i) {
    const T g = gamma == nullptr ? output_scale : row::effective_gamma(options, gamma[i]);
    y[i] = row::normalized(s, x[i]) * g + (beta == nullptr ? T{0} : beta[i] * output_scale);
  }
}

}  // namespace

template <typename T>
void add_norm_forward(const NormOptions& options, const AddNormForward<T>& args) {
  constexpr const char* kWhere = "add_norm_forward";
  const std::size_t rows = args.add.x.rows;
  const std::size_t cols = args.add.x.cols;
  check_row_kind<T>(kWhere, options);
  check_norm_options(kWhere, options, cols);
  check_residual_add(kWhere, args.add);
  check_optional_shape(kWhere, "sum", args.sum, rows, cols);
  check_shape(kWhere, "y", args.y, rows, cols);
  check_optional_length(kWhere, "gamma", args.gamma, cols);
  check_optional_length(kWhere, "beta", args.beta, cols);
  check_optional_length(kWhere, "statistics", args.statistics, rows);

  const bool adds = !args.add.branch.empty() || !args.add.skip.is_one();
  const MatrixView<T> s = args.sum.empty() ? args.y : args.sum;
  const T* gamma = args.gamma.empty() ? nullptr : args.gamma.data();
  const T* beta = args.beta.empty() ? nullptr : args.beta.data();
  parallel_for(rows, row_grain(cols), [&](std::size_t r) {
    const T* x = args.add.x.row(r).data();
    if (adds || !args.sum.empty()) {
      T* sum = s.row(r).data();
      residual_add_row(args.add, r, sum);
      x = sum;
    }
    const NormStatistics<T> statistics = row::statistics(options, x, cols);
    normalize_row(options, statistics, x, cols, gamma, beta, args.y.row(r).data());
    if (!args.statistics.empty()) args.statistics[r] = statistics;
  });
}

namespace {

/// One row of the backward: dx, and what the row adds to γ's and β's gradients.
template <typename T>
void backward_row(const NormOptions& options, const AddNormBackward<T>& args, std::size_t r,
                  T* d_gamma, T* d_beta) {
  const std::size_t cols = args.s.cols;
  const T* x = args.s.row(r).data();
  const T* dy = args.dy.row(r).data();
  const NormStatistics<T>& s = args.statistics[r];
  const T output_scale = static_cast<T>(options.output_scale);
  if (d_gamma != nullptr) {
    for (std::size_t i = 0; i < cols; ++i) d_gamma[i] += dy[i] * row::normalized(s, x[i]);
  }
  if (d_beta != nullptr) {
    for (std::size_t i = 0; i < cols; ++i) d_beta[i] += dy[i];
  }

  auto finish = [&](const auto& g) {
    const row::BackwardSums<T> sums = row::backward_sums(options, s, x, cols, g);
    T* dx = args.dx.row(r).data();
    if (args.d_residual.empty()) {
      for (std::size_t i = 0; i < cols; ++i) {
        dx[i] = row::input_gradient(s, sums, g(i), row::normalized(s, x[i]));
      }
    } else {
      const T* past = args.d_residual.row(r).data();
      for (std::size_t i = 0; i < cols; ++i) {
        dx[i] =
            args.skip[i] * past[i] + row::input_gradient(s, sums, g(i), row::normalized(s, x[i]));
      }
    }
  };
  if (args.gamma.empty()) {
    finish([&](std::size_t i) { return dy[i] * output_scale; });
  } else {
    finish([&](std::size_t i) { return dy[i] * row::effective_gamma(options, args.gamma[i]); });
  }
}

template <typename T>
void check_backward(const NormOptions& options, const AddNormBackward<T>& args) {
  constexpr const char* kWhere = "add_norm_backward";
  const std::size_t rows = args.s.rows;
  const std::size_t cols = args.s.cols;
  check_row_kind<T>(kWhere, options);
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

}  // namespace

std::size_t add_norm_workspace(std::size_t rows, std::size_t features) {
  return 2 * count_blocks(rows) * features;
}

template <typename T>
void add_norm_backward(const NormOptions& options, const AddNormBackward<T>& args) {
  check_backward(options, args);
  const std::size_t rows = args.s.rows;
  const std::size_t cols = args.s.cols;
  const std::size_t blocks = count_blocks(rows);
  const std::size_t block_rows = rows_per_block(rows);
  T* gamma_blocks = args.d_gamma.empty() ? nullptr : args.workspace.data();
  T* beta_blocks = args.d_beta.empty() ? nullptr : args.workspace.data() + blocks * cols;

  parallel_for(blocks, row_grain(cols * block_rows), [&](std::size_t b) {
    auto place = [&](T* partials) {
      if (partials == nullptr) return partials;
      return std::fill_n(partials + b * cols, cols, T{0}) - cols;
    };
    T* d_gamma = place(gamma_blocks);
    T* d_beta = place(beta_blocks);
    for (std::size_t r = b * block_rows; r < std::min(rows, (b + 1) * block_rows); ++r) {
      backward_row(options, args, r, d_gamma, d_beta);
    }
  });

  const T output_scale = static_cast<T>(options.output_scale);
  auto add_blocks = [&](const T* partials, std::span<T> gradient) {
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      T total = 0;
      for (std::size_t b = 0; b < blocks; ++b) total += partials[b * cols + i];
      gradient[i] += total * output_scale;
    }
  };
  add_blocks(gamma_blocks, args.d_gamma);
  add_blocks(beta_blocks, args.d_beta);
}

template void add_norm_forward(const NormOptions&, const AddNormForward<float>&);
template void add_norm_forward(const NormOptions&, const AddNormForward<double>&);
template void add_norm_backward(const NormOptions&, const AddNormBackward<float>&);
template void add_norm_backward(const NormOptions&, const AddNormBackward<double>&);

}  // namespace addnorm
