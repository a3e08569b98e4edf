#pragma once

/// The memory that a caller of the C interface passes to one call.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "addnorm/norm.h"
#include "kernels/check.h"

namespace addnorm::c {

/// Converts pointers to views. A matrix must be present; a vector may be NULL. Throws an Error for
/// misaligned memory. The function that gets the views checks overlaps.
class CallMemory {
 public:
  explicit CallMemory(std::string_view where) : where_(where) {}

  std::string_view where() const { return where_; }  ///< name of the called function

  template <typename T>
  MatrixView<const T> read(std::string_view name, const void* data, std::size_t rows,
                           std::size_t cols, std::size_t stride) const {
    return matrix(name, static_cast<const T*>(data), rows, cols, stride);
  }
  template <typename T>
  MatrixView<T> write(std::string_view name, void* data, std::size_t rows, std::size_t cols,
                      std::size_t stride) const {
    return matrix(name, static_cast<T*>(data), rows, cols, stride);
  }
  template <typename T>
  MatrixView<const T> read_optional(std::string_view name, const void* data, std::size_t rows,
                                    std::size_t cols, std::size_t stride) const {
    if (data == nullptr && rows > 0) return {};
    return read<T>(name, data, rows, cols, stride);
  }
  template <typename T>
  MatrixView<T> write_optional(std::string_view name, void* data, std::size_t rows,
                               std::size_t cols, std::size_t stride) const {
    if (data == nullptr && rows > 0) return {};
    return write<T>(name, data, rows, cols, stride);
  }
  template <typename T>
  std::span<const T> read(std::string_view name, const void* data, std::size_t count) const {
    return values(name, static_cast<const T*>(data), count);
  }
  template <typename T>
  std::span<T> write(std::string_view name, void* data, std::size_t count) const {
    return values(name, static_cast<T*>(data), count);
  }
  /// Reads a vector whose length the caller passes. The length must not be 0 if the vector is
  /// present.
  template <typename T>
  std::span<const T> read_counted(std::string_view name, const void* data,
                                  std::size_t count) const {
    check_count(name, data, count);
    return read<T>(name, data, count);
  }
  template <typename T>
  std::span<T> write_counted(std::string_view name, void* data, std::size_t count) const {
    check_count(name, data, count);
    return write<T>(name, data, count);
  }

 private:
  void check_count(std::string_view name, const void* data, std::size_t count) const {
    require((data == nullptr) == (count == 0), "{}: {} is {}, but its count is {}", where_, name,
            data == nullptr ? "NULL" : "not NULL", count);
  }
  template <typename T>
  MatrixView<T> matrix(std::string_view name, T* data, std::size_t rows, std::size_t cols,
                       std::size_t stride) const {
    const MatrixView<T> view(data, rows, cols, stride == 0 ? cols : stride);
    require(reinterpret_cast<std::uintptr_t>(data) % alignof(T) == 0,
            "{}: {} is not aligned to {} bytes", where_, name, alignof(T));
    constexpr std::size_t kMost = std::numeric_limits<std::ptrdiff_t>::max() / sizeof(T);
    require(view.stride <= kMost, "{}: {} has rows of {} values, more than there is memory", where_,
            name, view.stride);
    kernels::check_shape(where_, name, view, rows, cols);
    return view;
  }
  template <typename T>
  std::span<T> values(std::string_view name, T* data, std::size_t count) const {
    if (data == nullptr) return {};
    matrix(name, data, 1, count, count);
    return {data, count};
  }

  std::string_view where_;
};

}  // namespace addnorm::c
