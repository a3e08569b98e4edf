#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include "addnorm/view.h"

namespace addnorm {

/// A matrix that owns its memory: contiguous, 64-byte aligned, initially zero. It can be moved but
/// not copied.
template <typename T>
class Matrix {
 public:
  static constexpr std::size_t kAlignment = 64;

  Matrix() = default;
  Matrix(std::size_t rows, std::size_t cols) { resize(rows, cols); }
  Matrix(Matrix&& other) noexcept { *this = std::move(other); }
  Matrix& operator=(Matrix&& other) noexcept {
    data_ = std::move(other.data_);
    rows_ = std::exchange(other.rows_, 0);
    cols_ = std::exchange(other.cols_, 0);
    capacity_ = std::exchange(other.capacity_, 0);
    return *this;
  }

  /// Makes this rows × cols. Allocates, and sets all values to 0, only if the matrix must grow.
  /// Otherwise the values are unspecified. A loop over equal or smaller shapes allocates once. On
  /// std::bad_alloc the matrix is unchanged.
  void resize(std::size_t rows, std::size_t cols) {
    if (rows != 0 && cols > capacity_ / rows) {
      constexpr std::size_t kMost = std::numeric_limits<std::ptrdiff_t>::max() / sizeof(T);
      const std::size_t size = cols > kMost / rows ? kMost : rows * cols;  // new fails for kMost
      data_.reset(new (std::align_val_t{kAlignment}) T[size]());
      capacity_ = size;
    }
    rows_ = rows;
    cols_ = cols;
  }

  void fill(T value) { std::fill_n(data_.get(), rows_ * cols_, value); }

  MatrixView<T> view() { return {data_.get(), rows_, cols_}; }
  MatrixView<const T> view() const { return {data_.get(), rows_, cols_}; }
  operator MatrixView<T>() { return view(); }
  operator MatrixView<const T>() const { return view(); }

  std::span<T> flat() { return {data_.get(), rows_ * cols_}; }
  std::span<const T> flat() const { return {data_.get(), rows_ * cols_}; }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  std::size_t rows() const { return rows_; }
  std::size_t cols() const { return cols_; }
  bool empty() const { return rows_ * cols_ == 0; }
  T& operator()(std::size_t r, std::size_t c) { return data_[r * cols_ + c]; }
  const T& operator()(std::size_t r, std::size_t c) const { return data_[r * cols_ + c]; }

 private:
  struct Free {
    void operator()(T* p) const { operator delete[](p, std::align_val_t{kAlignment}); }
  };
  std::unique_ptr<T[], Free> data_;
  std::size_t rows_ = 0;
  std::size_t cols_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace addnorm
