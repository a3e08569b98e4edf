#pragma once

#include <cstddef>
#include <vector>

#include "addnorm/nn/placement.h"
#include "addnorm/nn/stack.h"

/// What a residual stream makes of what its sublayers give, whatever that is (docs/theory.md,
/// "Lanes"). Written from the papers' formulas, without the code that trains.

namespace addnorm::theory {

/// The learned numbers of a sublayer's mixes, in order. An empty list: those of the start.
struct LearnedNumbers {
  std::vector<double> read = {}, carry = {}, write = {};
};

/// A stack's stream without its sublayers. Each of them gives values of its own, uncorrelated with
/// all others.
struct BareStack {
  std::vector<BlockPlacement> placements;
  FinalNorm final_norm = FinalNorm::kAsPlacement;
  std::size_t d_model = 1;
  std::vector<LearnedNumbers> learned = {};  ///< of each sublayer, then of the exit; empty: start
  std::vector<double> branch_power = {};     ///< of what each sublayer gives; empty: 1
};

/// z = a·R(X) and X′ = A·X + b ⊗ u of a sublayer, X of n lanes. Matrices stand row by row. Where
/// attention reads three mixes, z is the first, of its values: the others say where it looks.
struct LaneNumbers {
  std::size_t lanes = 1, lanes_after = 1;
  std::vector<double> read = {};   ///< a: n
  std::vector<double> carry = {};  ///< A: n′ × n
  std::vector<double> write = {};  ///< b: n′
};

/// Whether theory covers the stream of these placements: no gates made of it, and lanes that are
/// not parts of its features.
bool covers_stream(const std::vector<BlockPlacement>& placements);

/// Of each sublayer; an Error where a placement is not covered.
std::vector<LaneNumbers> lane_numbers(const BareStack& stack);

/// M: row l is what sublayer l reads of x and of each sublayer before it, in this order; the last
/// row is what the stream ends with. x has power 1.
std::vector<std::vector<double>> depth_mixing(const BareStack& stack);

/// A square matrix, row by row, made doubly stochastic: rows and columns of exp(logits) divided by
/// their sums in turn until both are 1 (Sinkhorn and Knopp 1967).
std::vector<double> sinkhorn_knopp(const std::vector<double>& logits, std::size_t n);

/// The largest singular value of an n × n matrix.
double spectral_norm(std::vector<double> matrix, std::size_t n);

}  // namespace addnorm::theory
