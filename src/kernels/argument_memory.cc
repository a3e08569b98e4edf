#include "kernels/argument_memory.h"

#include <algorithm>
#include <utility>

#include "base/require.h"

namespace addnorm::kernels {
namespace {

MemoryPiece lane(MemoryPiece piece, std::size_t i) {
  piece.begin += i * piece.lane_stride;
  piece.end = piece.begin + (piece.rows - 1) * piece.row_stride + piece.run;
  piece.lanes = 1;
  return piece;
}

/// Returns the same bytes as a piece of one lane, if all rows of all lanes are equally spaced.
MemoryPiece flat(MemoryPiece piece) {
  if (piece.lanes == 1 || piece.lane_stride == 0) return lane(piece, 0);
  if (piece.rows == 1 || piece.row_stride == piece.lanes * piece.lane_stride) {
    piece.row_stride = piece.lane_stride;
  } else if (piece.lane_stride != piece.rows * piece.row_stride) {
    return piece;
  }
  piece.rows *= std::exchange(piece.lanes, 1);
  return piece;
}

/// Returns whether the bytes from … from + size − 1 touch a row of a piece of one lane.
bool touches(const MemoryPiece& piece, std::uintptr_t from, std::size_t size) {
  if (from + size <= piece.begin || piece.end <= from) return false;
  if (piece.rows == 1 || from <= piece.begin) return true;
  const std::size_t row = (from - piece.begin) / piece.row_stride;
  const std::uintptr_t row_begin = piece.begin + row * piece.row_stride;
  return from < row_begin + piece.run ||
         (row + 1 < piece.rows && row_begin + piece.row_stride < from + size);
}

/// Returns whether two pieces of one lane have a byte in common.
bool lanes_overlap(const MemoryPiece& a, const MemoryPiece& b) {
  if (a.begin >= b.end || b.begin >= a.end) return false;
  if (a.row_stride == b.row_stride && a.rows > 1 && b.rows > 1) {
    const std::size_t stride = a.row_stride;
    const std::size_t apart = b.begin >= a.begin ? (b.begin - a.begin) % stride
                                                 : stride - 1 - (a.begin - b.begin - 1) % stride;
    if (apart >= a.run && apart + b.run <= stride) return false;  // columns side by side
  }
  for (std::size_t r = 0; r < a.rows; ++r) {
    if (touches(b, a.begin + r * a.row_stride, a.run)) return true;
  }
  return false;
}

/// Returns whether `written` is the same matrix as `before`; for lanes, whether their first lanes
/// are.
bool is_same(const MemoryPiece& before, const MemoryPiece& written) {
  return before.begin == written.begin && before.run == written.run &&
         before.value_bytes == written.value_bytes && before.rows == written.rows &&
         (before.rows == 1 || before.row_stride == written.row_stride) &&
         (std::min(before.lanes, written.lanes) == 1 || before.lane_stride == written.lane_stride);
}

}  // namespace

bool overlap(const MemoryPiece& a_, const MemoryPiece& b_) {
  const MemoryPiece a = flat(a_), b = flat(b_);
  for (std::size_t i = 0; i < a.lanes; ++i) {
    for (std::size_t j = 0; j < b.lanes; ++j) {
      if (lanes_overlap(lane(a, i), lane(b, j))) return true;
    }
  }
  return false;
}

void ArgumentMemory::check(const MemoryPiece& before, const MemoryPiece& written,
                           bool may_be) const {
  if (may_be && is_same(before, written)) return;
  if (!overlap(before, written)) return;
  require(may_be, "{}: {} and {} overlap, each needs memory of its own", where_, before.name,
          written.name);
  fail(fmt::format("{}: {} and {} overlap, but differ in first element, stride or type", where_,
                   before.name, written.name));
}

void ArgumentMemory::check_lanes_apart(const MemoryPiece& written) const {
  const bool has_rows_apart = written.row_stride >= written.lanes * written.lane_stride;
  const bool has_lanes_apart = written.lane_stride >= written.rows * written.row_stride;
  if (written.rows < 2 || has_rows_apart || has_lanes_apart) return;
  for (std::size_t i = 1; i < written.lanes; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      require(!lanes_overlap(lane(written, i), lane(written, j)),
              "{}: lanes {} and {} of {} overlap, each needs memory of its own", where_, j, i,
              written.name);
    }
  }
}

}  // namespace addnorm::kernels
