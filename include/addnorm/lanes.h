#pragma once

/// \file
/// A residual stream of several lanes: carry, write, read and norm in one pass over memory, forward
/// and backward. Small matrices mix the lanes of a token; they are the same for all rows or
/// different for each. This covers hyper-connections (Zhu et al. 2024, eq. 1–4), mHC (Xie et al.
/// 2025), wide residual streams, Attention Residuals (Kimi 2026) and the other rows of
/// docs/arrangements.md. The rules of norm.h for threads, types, errors and bits apply here too.

#include <cstddef>
#include <optional>
#include <span>

#include "addnorm/norm.h"

namespace addnorm {

/// Several matrices of one shape: element (row r, lane i, feature c) is data[r·row_stride +
/// i·lane_stride + c]. A rows × lanes × features tensor has row_stride = lanes·features and
/// lane_stride = features. Matrices that follow one another have row_stride = features and
/// lane_stride = rows·features. Lanes that are only read may all be one matrix: lane_stride = 0.
template <typename T>
struct LanesView {
  T* data = nullptr;
  std::size_t rows = 0;
  std::size_t lanes = 0;
  std::size_t features = 0;
  std::size_t row_stride = 0;
  std::size_t lane_stride = 0;

  constexpr LanesView() = default;
  /// A rows × lanes × features tensor without gaps.
  constexpr LanesView(T* data_, std::size_t rows_, std::size_t lanes_, std::size_t features_)
      : LanesView(data_, rows_, lanes_, features_, lanes_ * features_, features_) {}
  /// A view with any strides.
  constexpr LanesView(T* data_, std::size_t rows_, std::size_t lanes_, std::size_t features_,
                      std::size_t row_stride_, std::size_t lane_stride_)
      : data(data_),
        rows(rows_),
        lanes(lanes_),
        features(features_),
        row_stride(row_stride_),
        lane_stride(lane_stride_) {}
  /// A matrix as a view of one lane.
  constexpr LanesView(MatrixView<T> m)
      : LanesView(m.data, m.rows, m.data == nullptr ? 0 : 1, m.cols, m.stride, 0) {}

  /// A writable view converts to a read-only one.
  constexpr operator LanesView<const T>() const requires(!std::is_const_v<T>) {
    return {data, rows, lanes, features, row_stride, lane_stride};
  }

  /// Lane i.
  constexpr MatrixView<T> lane(std::size_t i) const {
    return {data + i * lane_stride, rows, features, row_stride};
  }
  /// `count` lanes, beginning with `first`.
  constexpr LanesView part(std::size_t first, std::size_t count) const {
    return {data + first * lane_stride, rows, count, features, row_stride, lane_stride};
  }
  constexpr bool empty() const { return data == nullptr; }  ///< no lanes at all ("absent")
};

/// Matrices that mix lanes: p × q numbers, row by row, in each row of `values`. One row applies to
/// all rows of the stream; else there is one for each.
template <typename V>
using LaneMix = MatrixView<const V>;

/// The step from one sublayer's output to the next one's input in a stream of n lanes, for each
/// row:
///
///     X′ = A·X + B·dropout(F)       A ∈ R^{n′×n} carries, B ∈ R^{n′×q} writes
///     y  = norm(R·X′)               R ∈ R^{k×n′} reads
///
/// Usually q = k = 1. Products and sums are in Arithmetic<Stream>, lane by lane in order, with A's
/// first. X′ is rounded to Stream before it is read; R·X′ is not rounded before it is normalized.
template <typename Stream, typename Branch = Stream>
struct LanesForward {
  static_assert(check_storage<Stream, Branch>());
  using Value = Arithmetic<Stream>;

  LanesView<const Stream> x = {};       ///< n lanes, the stream
  LanesView<const Branch> branch = {};  ///< q lanes of F; absent: nothing is written
  LaneMix<Value> carry = {};            ///< n′·n numbers; absent: A = I
  LaneMix<Value> write = {};            ///< n′·q numbers; needed with a branch
  Dropout dropout = {};                 ///< of the branch, which then has one lane
  /// Output X′, n′ lanes; may be x. It may be absent only if X′ = X, without carry and branch.
  LanesView<Stream> sum = {};
  LaneMix<Value> read = {};              ///< k·n′ numbers; absent: nothing is read
  std::optional<NormOptions> norm = {};  ///< kLayer or kRms, for k = 1; absent: y = R·X′
  std::span<const Value> gamma = {};     ///< of the norm; empty: 1
  std::span<const Value> beta = {};      ///< of the norm; empty: 0
  LanesView<Branch> y = {};              ///< k lanes; may be branch
  /// One for each row. An optional output of forward, and an input of backward.
  std::span<NormStatistics<Value>> statistics = {};
};
/// Computes X′ and y. x, branch, X′ and y have at most kMostLanes lanes each. Without carry and
/// branch, x may have any number.
template <typename Stream, typename Branch = Stream>
ADDNORM_API void lanes_forward(const LanesForward<Stream, Branch>& args, std::size_t threads = 0);

/// The largest number of lanes that can be mixed.
inline constexpr std::size_t kMostLanes = 16;

/// The gradients of lanes_forward. Let dz be the gradient of R·X′, from the norm's backward
/// (add_norm_backward) or dy itself, and G = d_sum + Rᵀ·dz:
///
///     dX = Aᵀ·G,   dF = mask ⊙ Bᵀ·G,   dA = G·Xᵀ,   dB = G·dropout(F)ᵀ,   dR = dz·X′ᵀ
///
/// Products of gradients are sums over features. X′ is recomputed from x.
template <typename Stream, typename Branch = Stream>
struct LanesBackward {
  static_assert(check_storage<Stream, Branch>());
  using Value = Arithmetic<Stream>;

  LanesForward<Stream, Branch> forward = {};  ///< as in forward; its sum and y are not used
  LanesView<const Stream> d_sum = {};         ///< gradient of X′ from later layers; absent: 0
  LanesView<const Branch> dy = {};            ///< gradient of y, if there is a read
  LanesView<Stream> dx = {};                  ///< may be d_sum
  LanesView<Branch> d_branch = {};            ///< absent: not wanted; may be dy
  /// Gradients of the mixes, with as many rows as the mixes. A gradient with one row is the sum
  /// over all rows. Absent: not wanted.
  MatrixView<Value> d_carry = {};
  MatrixView<Value> d_write = {};
  MatrixView<Value> d_read = {};
  std::span<Value> d_gamma = {};    ///< empty: not wanted
  std::span<Value> d_beta = {};     ///< empty: not wanted
  std::span<Value> workspace = {};  ///< lanes_workspace() values, for temporaries
  GradientMode parameter_gradients = GradientMode::kAccumulate;  ///< of mixes, γ and β
};
/// Computes dx and the gradients whose memory is present in LanesBackward.
template <typename Stream, typename Branch = Stream>
ADDNORM_API void lanes_backward(const LanesBackward<Stream, Branch>& args, std::size_t threads = 0);

/// Returns the least number of values for the workspace of lanes_backward. `lanes` is the larger
/// number of lanes of x and X′.
ADDNORM_API std::size_t lanes_workspace(std::size_t rows, std::size_t lanes, std::size_t features);

}  // namespace addnorm
