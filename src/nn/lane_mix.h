#pragma once

#include <cstddef>
#include <span>

#include "addnorm/nn/residual_stream.h"

namespace addnorm::nn {

/// Returns the lanes of a matrix whose rows are those of the first lane, then of the second, and so
/// on.
template <typename V>
LaneList<V> lanes_of(MatrixView<V> all, std::size_t lanes) {
  LaneList<V> list;
  const std::size_t rows = all.rows / lanes;
  for (std::size_t i = 0; i < lanes; ++i) list.push_back(all.block(i * rows, 0, rows, all.cols));
  return list;
}

/// Whether the old values are replaced, or the new ones are added to them.
enum class Into { kReplace, kAdd };

/// out_i (+)= Σ_j m_ij·in_j in each row. `m` has out.size()·in.size() numbers in a row, and one row
/// or as many rows as the lanes.
template <typename V>
void mix(MatrixView<const V> m, const LaneList<const V>& in, const LaneList<V>& out, Into into);

/// The backward of mix(): d_in_j += Σ_i m_ij·d_out_i, and d_m_ij += ⟨d_out_i, in_j⟩ for each row,
/// or summed over rows if m has one row.
template <typename V>
struct MixBackward {
  MatrixView<const V> m;
  const LaneList<const V>& in;
  const LaneList<const V>& d_out;
  const LaneList<V>& d_in;
  MatrixView<V> d_m = {};  ///< absent: not wanted
};
template <typename V>
void mix_backward(const MixBackward<V>& args);

/// Returns Σ a_c·b_c, by 32 sums in a fixed order.
template <typename V>
V dot(std::span<const V> a, std::span<const V> b);

}  // namespace addnorm::nn
