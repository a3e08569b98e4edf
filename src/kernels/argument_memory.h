#pragma once

/// Finds overlaps in the memory of one call's arguments.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "addnorm/lanes.h"

namespace addnorm::kernels {

/// The place of an argument: rows × lanes runs of `run` bytes. A matrix has one lane.
struct MemoryPiece {
  const char* name;
  std::uintptr_t begin, end;  ///< equal if there are no bytes
  std::size_t rows, lanes;
  std::size_t row_stride, lane_stride;  ///< in bytes
  std::size_t run, value_bytes;

  MemoryPiece() = default;  // leaves the members uninitialized: a call has room for many pieces
  template <typename T>
  MemoryPiece(const char* name_, const LanesView<T>& view)
      : name(name_),
        begin(reinterpret_cast<std::uintptr_t>(view.data)),
        end(begin),
        rows(view.rows),
        lanes(view.lanes),
        row_stride(view.row_stride * sizeof(T)),
        lane_stride(view.lane_stride * sizeof(T)),
        run(view.features * sizeof(T)),
        value_bytes(sizeof(T)) {
    if (view.empty() || rows == 0 || lanes == 0 || run == 0) return;
    end += (rows - 1) * row_stride + (lanes - 1) * lane_stride + run;
  }
  template <typename T>
  MemoryPiece(const char* name_, const MatrixView<T>& view)
      : MemoryPiece(name_, LanesView<T>(view)) {}
  template <typename T>
  MemoryPiece(const char* name_, std::span<T> values)
      : MemoryPiece(name_, MatrixView<T>(values.data(), 1, values.size())) {}
};

/// Returns whether two pieces have a byte in common.
bool overlap(const MemoryPiece& a, const MemoryPiece& b);

/// Checks that no output of a call overlaps another argument or itself. The call may allow an
/// output to overlap an input. Both must then be the same matrix: first element, stride and type.
/// Columns of one matrix side by side do not overlap.
class ArgumentMemory {
 public:
  /// A set of arguments, as bits.
  using Set = std::uint32_t;

  explicit ArgumentMemory(std::string_view where) : where_(where) {}

  /// Adds an input. All inputs must be added before the outputs.
  template <typename View>
  Set read(const char* name, const View& view) {
    return add(MemoryPiece(name, view));
  }
  /// Adds an output. Throws an Error if it overlaps an argument that was added before.
  template <typename View>
  void write(const char* name, const View& view, Set may_be = {}) {
    const MemoryPiece piece(name, view);
    if (piece.lanes > 1) check_lanes_apart(piece);
    for (std::size_t i = 0; i < count_; ++i) {
      if (piece.begin < pieces_[i].end && pieces_[i].begin < piece.end) {
        check(pieces_[i], piece, (may_be >> i & 1) != 0);
      }
    }
    add(piece);
  }

 private:
  static constexpr std::size_t kMost = 28;  // more than any call has

  Set add(const MemoryPiece& piece) {
    if (piece.begin == piece.end) return 0;
    pieces_[count_] = piece;
    return Set{1} << count_++;
  }
  void check_lanes_apart(const MemoryPiece& written) const;
  void check(const MemoryPiece& before, const MemoryPiece& written, bool may_be) const;

  std::string_view where_;
  MemoryPiece pieces_[kMost];
  std::size_t count_ = 0;
};

}  // namespace addnorm::kernels
