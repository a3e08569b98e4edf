#pragma once

/// The argument checks that the norm kernels share.

#include <cstddef>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>

#include "addnorm/norm.h"
#include "base/require.h"

namespace addnorm::kernels {

/// Throws unless ε is finite and not negative, and `set_size` values can be normalized together.
void check_norm_options(std::string_view where, const NormOptions& options, std::size_t set_size);

/// Throws unless the samples of the argument `name` divide the rows.
void check_samples(std::string_view where, std::string_view name, std::size_t samples,
                   std::size_t rows);

/// Whether these types have norms over channels.
template <typename Stream, typename Branch>
inline constexpr bool kHasChannelNorms =
    std::is_same_v<Stream, Branch>&& std::is_same_v<Stream, Arithmetic<Stream>>;

/// Throws unless the kind of norm supports these types and this number of features.
template <typename Stream, typename Branch>
void check_kind(std::string_view where, const NormOptions& options, StatisticsFrom from,
                std::size_t features) {
  const bool of_rows = normalizes_rows(options.kind);
  require(of_rows || squashes(options.kind) || kHasChannelNorms<Stream, Branch>,
          "{}: batch, instance and group norms take float or double, x and y alike", where);
  require(from == StatisticsFrom::kInput || options.kind == NormKind::kBatch,
          "{}: statistics are given, which is for kBatch alone", where);
  if (of_rows) check_norm_options(where, options, features);
}

/// Throws unless `values` holds `expected` values.
template <typename T>
void check_length(std::string_view where, std::string_view name, std::span<T> values,
                  std::size_t expected) {
  require(values.size() == expected, "{}: {} has {} values, must have {}", where, name,
          values.size(), expected);
}
template <typename T>
void check_optional_length(std::string_view where, std::string_view name, std::span<T> values,
                           std::size_t expected) {
  if (!values.empty()) check_length(where, name, values, expected);
}

/// Throws unless `matrix` has the given shape and memory for it.
template <typename T>
void check_shape(std::string_view where, std::string_view name, const MatrixView<T>& matrix,
                 std::size_t rows, std::size_t cols) {
  require(!matrix.empty() || rows == 0, "{}: {} is absent, must be {} × {}", where, name, rows,
          cols);
  require(matrix.rows == rows && matrix.cols == cols, "{}: {} is {} × {}, must be {} × {}", where,
          name, matrix.rows, matrix.cols, rows, cols);
  require(matrix.stride >= cols, "{}: the stride of {} is {}, must be at least its {} columns",
          where, name, matrix.stride, cols);
  constexpr std::size_t kMost = std::numeric_limits<std::ptrdiff_t>::max() / sizeof(T);
  require(rows == 0 || matrix.stride <= kMost / rows,
          "{}: {} has {} rows of stride {}, more than there is memory", where, name, rows,
          matrix.stride);
}
template <typename T>
void check_optional_shape(std::string_view where, std::string_view name,
                          const MatrixView<T>& matrix, std::size_t rows, std::size_t cols) {
  require(!matrix.empty() || matrix.rows == 0 || matrix.cols == 0,
          "{}: {} is {} × {} but has no memory", where, name, matrix.rows, matrix.cols);
  if (!matrix.empty()) check_shape(where, name, matrix, rows, cols);
}

}  // namespace addnorm::kernels
