#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

namespace addnorm {

/// A view of a row-major matrix, which does not own the memory: element (r, c) is data[r * stride +
/// c]. In a Transformer a row is a token and a column is a feature.
template <typename T>
struct MatrixView {
  T* data = nullptr;
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::size_t stride = 0;  ///< elements from one row to the next, at least cols

  constexpr MatrixView() = default;
  /// Without gaps: stride = cols.
  constexpr MatrixView(T* data_, std::size_t rows_, std::size_t cols_)
      : MatrixView(data_, rows_, cols_, cols_) {}
  /// A view whose rows start `stride` elements apart.
  constexpr MatrixView(T* data_, std::size_t rows_, std::size_t cols_, std::size_t stride_)
      : data(data_), rows(rows_), cols(cols_), stride(stride_) {}

  /// A writable view converts to a read-only one.
  constexpr operator MatrixView<const T>() const requires(!std::is_const_v<T>) {
    return {data, rows, cols, stride};
  }

  /// Row r.
  constexpr std::span<T> row(std::size_t r) const { return {data + r * stride, cols}; }
  /// Element (r, c).
  constexpr T& operator()(std::size_t r, std::size_t c) const { return data[r * stride + c]; }

  constexpr bool empty() const { return data == nullptr; }      ///< no matrix ("absent")
  constexpr bool contiguous() const { return stride == cols; }  ///< without gaps
  constexpr std::size_t size() const { return rows * cols; }    ///< in elements

  /// The part that starts at (row, col) and has the given size.
  constexpr MatrixView block(std::size_t row, std::size_t col, std::size_t n_rows,
                             std::size_t n_cols) const {
    return {data + row * stride + col, n_rows, n_cols, stride};
  }
};

}  // namespace addnorm
