#include "c/memory.h"

#include <algorithm>

namespace addnorm::c {

bool CallMemory::Piece::touches(std::uintptr_t from, std::size_t bytes) const {
  if (from + bytes <= begin || end() <= from) return false;
  if (from <= begin) return true;
  const std::size_t row = (from - begin) / stride_bytes;
  const std::uintptr_t row_begin = begin + row * stride_bytes;
  return from < row_begin + row_bytes ||
         (row + 1 < rows && row_begin + stride_bytes < from + bytes);
}

bool CallMemory::Piece::is_same_matrix_as(const Piece& other) const {
  return begin == other.begin && rows == other.rows && row_bytes == other.row_bytes &&
         value_bytes == other.value_bytes && (rows == 1 || stride_bytes == other.stride_bytes);
}

bool CallMemory::Piece::may_be_the(const Piece& other) const {
  return std::ranges::find(may_be, other.name) != may_be.end();
}

/// Columns of one matrix beside each other lie between each other's ends and do not overlap.
bool CallMemory::overlap(const Piece& a, const Piece& b) {
  if (a.end() <= b.begin || b.end() <= a.begin) return false;
  for (std::size_t r = 0; r < a.rows; ++r) {
    if (b.touches(a.begin + r * a.stride_bytes, a.row_bytes)) return true;
  }
  return false;
}

void CallMemory::check_count(std::string_view name, const void* data, std::size_t count) const {
  require((data == nullptr) == (count == 0), "{}: {} is {}, but its count is {}", where_, name,
          data == nullptr ? "NULL" : "not NULL", count);
}

void CallMemory::add(const Piece& piece) {
  for (const Piece& other : std::span(pieces_.data(), count_)) {
    if ((!piece.written && !other.written) || !overlap(piece, other)) continue;
    const bool may_be = piece.may_be_the(other) || other.may_be_the(piece);
    require(may_be, "{}: {} and {} overlap, each needs memory of its own", where_, other.name,
            piece.name);
    require(piece.is_same_matrix_as(other),
            "{}: {} and {} overlap, but differ in first element, stride or type", where_,
            other.name, piece.name);
  }
  pieces_.at(count_++) = piece;
}

}  // namespace addnorm::c
