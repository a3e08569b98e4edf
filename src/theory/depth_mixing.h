#pragma once

#include <cstddef>
#include <vector>

#include "addnorm/nn/placement.h"
#include "addnorm/nn/stack.h"

/// Predicts the residual stream as a function of the sublayers' outputs, whatever these are
/// (docs/theory.md, "Lanes"). It implements the papers' formulas, without the code that trains.

namespace addnorm::theory {

/// The learned numbers of a sublayer's mixes, in order. Empty: the initial ones.
struct LearnedNumbers {
  std::vector<double> read = {}, carry = {}, write = {};
};

/// A stack's stream without its sublayers. Each sublayer outputs its own values, uncorrelated with
/// all others.
struct BareStack {
  std::vector<BlockPlacement> placements;
  FinalNorm final_norm = FinalNorm::kAsPlacement;
  std::size_t d_model = 1;
  std::vector<LearnedNumbers> learned = {};  ///< of each sublayer, then of the exit; empty: initial
  std::vector<double> branch_power = {};     ///< power of each sublayer's output; empty: 1
};

/// The numbers of a sublayer: z = a·R(X) and X′ = A·X + b ⊗ u, X of n lanes. Matrices are stored
/// row by row. If attention reads three mixes, z is the first one, for its values; the others only
/// determine the attention weights.
struct LaneNumbers {
  std::size_t lanes = 1, lanes_after = 1;
  std::vector<double> read = {};   ///< a: n
  std::vector<double> carry = {};  ///< A: n′ × n
  std::vector<double> write = {};  ///< b: n′
};

/// Returns whether theory covers the stream of these placements: no gates computed from it, and no
/// lanes that are parts of its features.
bool covers_stream(const std::vector<BlockPlacement>& placements);

/// Returns the numbers of each sublayer; throws an Error if a placement is not covered.
std::vector<LaneNumbers> lane_numbers(const BareStack& stack);

/// Returns M: row l has the coefficients of x and of each earlier sublayer's output in the input of
/// sublayer l. The last row is the end of the stream. x has power 1.
std::vector<std::vector<double>> depth_mixing(const BareStack& stack);

/// Returns a doubly stochastic matrix, row by row: rows and columns of exp(logits) are divided by
/// their sums alternately until all sums are 1 (Sinkhorn and Knopp 1967).
std::vector<double> sinkhorn_knopp(const std::vector<double>& logits, std::size_t n);

/// Returns the largest singular value of an n × n matrix.
double spectral_norm(std::vector<double> matrix, std::size_t n);

}  // namespace addnorm::theory
