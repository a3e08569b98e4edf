#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace addnorm {

/// What the tutorial asks of a residual stream of several lanes; layouts.cc states the fields.

/// A stack's stream without its sublayers: that of a row of the table of placements, or of numbers
/// of the reader's own.
struct LaneStack {
  std::size_t row;      ///< in the table of placements
  std::size_t lanes;    ///< where the row leaves them free; 0: its usual number
  std::size_t layers;   ///< of two sublayers each
  std::uint32_t moved;  ///< whether learned numbers have moved, as in the lab's figures
  std::uint64_t seed;   ///< of how they have moved
  const double* read;   ///< a, A and b of every sublayer, n, n × n and n numbers of `lanes` lanes,
  const double* carry;  ///< in place of the row's; or null
  const double* write;
};

/// What one sublayer makes of the lanes of a token, f being what it has computed: z = a·X and
/// X′ = A·X + b ⊗ f.
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

/// The gradient that X′ = A·X, A = Sinkhorn(logits), gives to A and to its logits, where that of X′
/// is d_next.
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

/// As JSON: [{"row" (in the table of placements), "name", "usedBy", "source", "least", "usual",
/// "most", "grows", "before", "inside", "after", "lastLane", "formulas": {"read", "carry", "write",
/// "exit"}}, …], the rows whose stream theory covers.
std::string lane_rows_json();

/// As JSON: [{"lanes", "lanesAfter", "read", "carry", "write"}, …], the numbers of each sublayer.
std::string lane_numbers_json(const LaneStack& stack);

/// As JSON: the rows of the matrix M of theory::depth_mixing.
std::string lane_mixing_json(const LaneStack& stack);

/// As JSON: "left", what is left of a difference between lanes behind each sublayer, and "gain", by
/// how much the product of all A may amplify; empty where matrices alone do not carry the lanes.
std::string lanes_carried_json(const LaneStack& stack);

void take_lane_step(const LaneStep& step);
void find_lane_gradient(const LaneGradient& gradient);

}  // namespace addnorm
