#pragma once

/// The memory that a caller of the C interface gives to one call.

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "addnorm/norm.h"
#include "kernels/check.h"

namespace addnorm::c {

/// Of what an output may take the place.
using MayBe = std::array<std::string_view, 3>;

/// Makes views of pointers: a matrix must be there, a vector may be NULL. Throws where one is not
/// aligned, and where what is written overlaps anything else of the call.
class CallMemory {
 public:
  explicit CallMemory(std::string_view where) : where_(where) {}

  std::string_view where() const { return where_; }  ///< the function that is called

  template <typename T>
  MatrixView<const T> read(std::string_view name, const void* data, std::size_t rows,
                           std::size_t cols, std::size_t stride) {
    return matrix(name, static_cast<const T*>(data), rows, cols, stride, {});
  }
  template <typename T>
  MatrixView<T> write(std::string_view name, void* data, std::size_t rows, std::size_t cols,
                      std::size_t stride, const MayBe& may_be = {}) {
    return matrix(name, static_cast<T*>(data), rows, cols, stride, may_be);
  }
  template <typename T>
  MatrixView<const T> read_optional(std::string_view name, const void* data, std::size_t rows,
                                    std::size_t cols, std::size_t stride) {
    if (data == nullptr && rows > 0) return {};
    return read<T>(name, data, rows, cols, stride);
  }
  template <typename T>
  MatrixView<T> write_optional(std::string_view name, void* data, std::size_t rows,
                               std::size_t cols, std::size_t stride, const MayBe& may_be = {}) {
    if (data == nullptr && rows > 0) return {};
    return write<T>(name, data, rows, cols, stride, may_be);
  }
  template <typename T>
  std::span<const T> read(std::string_view name, const void* data, std::size_t count) {
    return values(name, static_cast<const T*>(data), count);
  }
  template <typename T>
  std::span<T> write(std::string_view name, void* data, std::size_t count) {
    return values(name, static_cast<T*>(data), count);
  }
  /// Of vectors whose length the caller says: it must say one, if there is a vector.
  template <typename T>
  std::span<const T> read_counted(std::string_view name, const void* data, std::size_t count) {
    check_count(name, data, count);
    return read<T>(name, data, count);
  }
  template <typename T>
  std::span<T> write_counted(std::string_view name, void* data, std::size_t count) {
    check_count(name, data, count);
    return write<T>(name, data, count);
  }

 private:
  /// Rows of bytes.
  struct Piece {
    std::string_view name;
    std::uintptr_t begin;
    std::size_t rows, row_bytes, stride_bytes, value_bytes;
    bool written;
    MayBe may_be;

    std::uintptr_t end() const { return begin + (rows - 1) * stride_bytes + row_bytes; }
    bool touches(std::uintptr_t from, std::size_t bytes) const;
    bool is_same_matrix_as(const Piece& other) const;
    bool may_be_the(const Piece& other) const;
  };

  static bool overlap(const Piece& a, const Piece& b);
  void check_count(std::string_view name, const void* data, std::size_t count) const;
  void add(const Piece& piece);

  template <typename T>
  void add(std::string_view name, const MatrixView<T>& view, const MayBe& may_be) {
    const auto begin = reinterpret_cast<std::uintptr_t>(view.data);
    require(begin % alignof(T) == 0, "{}: {} is not aligned to {} bytes", where_, name, alignof(T));
    constexpr std::size_t kMost = std::numeric_limits<std::ptrdiff_t>::max() / sizeof(T);
    require(view.stride <= kMost, "{}: {} has rows of {} values, more than there is memory", where_,
            name, view.stride);
    kernels::check_shape(where_, name, view, view.rows, view.cols);
    if (view.size() == 0) return;
    add({name, begin, view.rows, view.cols * sizeof(T), view.stride * sizeof(T), sizeof(T),
         !std::is_const_v<T>, may_be});
  }
  template <typename T>
  MatrixView<T> matrix(std::string_view name, T* data, std::size_t rows, std::size_t cols,
                       std::size_t stride, const MayBe& may_be) {
    const MatrixView<T> view(data, rows, cols, stride == 0 ? cols : stride);
    add(name, view, may_be);
    return view;
  }
  template <typename T>
  std::span<T> values(std::string_view name, T* data, std::size_t count) {
    if (data == nullptr) return {};
    add(name, MatrixView<T>(data, 1, count), {});
    return {data, count};
  }

  std::string_view where_;
  std::array<Piece, 18> pieces_{};  // more than any call has
  std::size_t count_ = 0;
};

}  // namespace addnorm::c
