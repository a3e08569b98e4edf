#include "nn/lane_mix.h"

#include <algorithm>
#include <array>

#include "addnorm/matrix.h"
#include "base/parallel.h"
#include "kernels/column_sums.h"

namespace addnorm::nn {
namespace {

/// Returns the numbers of row r; there may be one row for all.
template <typename V>
const V* numbers(MatrixView<const V> m, std::size_t r) {
  return m.row(m.rows == 1 ? 0 : r).data();
}

/// to (+)= factor·from
template <typename V>
void add_scaled(V factor, std::span<const V> from, std::span<V> to, Into into) {
  if (into == Into::kReplace) {
    for (std::size_t c = 0; c < to.size(); ++c) to[c] = factor * from[c];
  } else if (factor != V{0}) {
    for (std::size_t c = 0; c < to.size(); ++c) to[c] += factor * from[c];
  }
}

}  // namespace

template <typename V>
V dot(std::span<const V> a, std::span<const V> b) {
  constexpr std::size_t kSums = kernels::kTileWidth;
  std::array<V, kSums> sums{};
  std::size_t c = 0;
  for (; c + kSums <= a.size(); c += kSums) {
    for (std::size_t k = 0; k < kSums; ++k) sums[k] += a[c + k] * b[c + k];
  }
  for (std::size_t k = 0; c + k < a.size(); ++k) sums[k] += a[c + k] * b[c + k];
  return kernels::tree_sum(sums);
}

template <typename V>
void mix(MatrixView<const V> m, const LaneList<const V>& in, const LaneList<V>& out, Into into) {
  const std::size_t rows = out.front().rows;
  parallel_for(rows, row_grain(out.size() * in.size() * out.front().cols), [&](std::size_t r) {
    const V* const row = numbers(m, r);
    for (std::size_t i = 0; i < out.size(); ++i) {
      for (std::size_t j = 0; j < in.size(); ++j) {
        add_scaled<V>(row[i * in.size() + j], in[j].row(r), out[i].row(r),
                      j == 0 ? into : Into::kAdd);
      }
    }
  });
}

template <typename V>
void mix_backward(const MixBackward<V>& args) {
  const std::size_t n_in = args.in.size(), n_out = args.d_out.size();
  const std::size_t rows = args.d_out.front().rows;
  const bool sums_rows = !args.d_m.empty() && args.m.rows == 1;
  Matrix<V> of_rows;  // each row's terms of the gradient of shared numbers
  if (sums_rows) of_rows.resize(rows, n_in * n_out);
  parallel_for(rows, row_grain(n_in * n_out * args.d_out.front().cols), [&](std::size_t r) {
    const V* const row = numbers(args.m, r);
    for (std::size_t i = 0; i < n_out; ++i) {
      for (std::size_t j = 0; j < n_in; ++j) {
        const std::size_t k = i * n_in + j;
        if (sums_rows) {
          of_rows(r, k) = dot<V>(args.d_out[i].row(r), args.in[j].row(r));
        } else if (!args.d_m.empty()) {
          args.d_m(r, k) += dot<V>(args.d_out[i].row(r), args.in[j].row(r));
        }
      }
    }
    for (std::size_t j = 0; j < args.d_in.size(); ++j) {
      for (std::size_t i = 0; i < n_out; ++i) {
        add_scaled<V>(row[i * n_in + j], args.d_out[i].row(r), args.d_in[j].row(r), Into::kAdd);
      }
    }
  });
  if (sums_rows) {
    kernels::add_column_sums<V>(rows, n_in * n_out, args.d_m.row(0),
                                [&](std::size_t r, std::size_t k) { return of_rows(r, k); });
  }
}

#define ADDNORM_INSTANTIATE(V)                                                                \
  template V dot(std::span<const V>, std::span<const V>);                                     \
  template void mix(MatrixView<const V>, const LaneList<const V>&, const LaneList<V>&, Into); \
  template void mix_backward(const MixBackward<V>&);
ADDNORM_INSTANTIATE(float)
ADDNORM_INSTANTIATE(double)
#undef ADDNORM_INSTANTIATE

}  // namespace addnorm::nn
