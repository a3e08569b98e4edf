#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace addnorm {

/// The tutorial's interface to a residual stream of several lanes; layouts.cc lists the fields.

/// A stack's stream without its sublayers. It has the mixes of a row of the table of placements, or
/// the reader's own numbers.
struct LaneStack {
  std::size_t row;      ///< in the table of placements
  std::size_t lanes;    ///< if the row leaves them free; 0: its usual number
  std::size_t layers;   ///< of two sublayers each
  std::uint32_t moved;  ///< whether learned numbers are moved, as in the lab's figures
  std::uint64_t seed;   ///< of the random moves
  /// The numbers a, A and b of every sublayer, n, n × n and n numbers for n = `lanes`. They replace
  /// the row's; null: the row's.
  const double* read;
  const double* carry;
  const double* write;
};

/// A sublayer's effect on the lanes of a token, with its output f: z = a·X and X′ = A·X + b ⊗ f.
struct LaneStep {
  std::size_t lanes;
  std::size_t lanes_after;
  std::size_t features;
  const double* x;  ///< lanes × features
  const double* f;  ///< features
  const double* read;
  const double* carry;
  const double* write;
  double* z;     ///< features
  double* next;  ///< lanes_after × features
};

/// The gradients of A and its logits, for X′ = A·X, A = Sinkhorn(logits), and the gradient d_next
/// of X′.
struct LaneGradient {
  std::size_t lanes;
  std::size_t features;
  const double* x;
  const double* d_next;
  const double* logits;  ///< n × n
  double* carry;         ///< A
  double* d_carry;
  double* d_logits;
};

/// Returns, as JSON, [{"row" (in the table of placements), "name", "usedBy", "source", "least",
/// "usual", "most", "grows", "before", "inside", "after", "lastLane", "formulas": {"read", "carry",
/// "write", "exit"}}, …]: the rows whose stream theory covers.
std::string lane_rows_json();

/// Returns, as JSON, [{"lanes", "lanesAfter", "read", "carry", "write"}, …]: the numbers of each
/// sublayer.
std::string lane_numbers_json(const LaneStack& stack);

/// Returns, as JSON, the rows of the matrix M of theory::depth_mixing.
std::string lane_mixing_json(const LaneStack& stack);

/// Returns, as JSON, "left", the remaining difference between lanes after each sublayer, and
/// "gain", the largest amplification by the product of all A. Empty if the lanes are not carried by
/// matrices alone.
std::string lanes_carried_json(const LaneStack& stack);

void take_lane_step(const LaneStep& step);
void find_lane_gradient(const LaneGradient& gradient);

}  // namespace addnorm
