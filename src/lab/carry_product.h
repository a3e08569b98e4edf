#pragma once

#include <string>
#include <vector>

#include "lab/bare_stream.h"
#include "lab/figure.h"
#include "theory/depth_mixing.h"

namespace addnorm::lab {

/// What a stack makes of n lanes where its sublayers give nothing: A_l … A_1 behind each sublayer,
/// n × n numbers row by row.
struct CarryProducts {
  std::size_t lanes = 0;
  std::vector<std::vector<double>> measured = {};   ///< each lane holds a block of its own
  std::vector<std::vector<double>> predicted = {};  ///< the product of the numbers
  std::vector<std::vector<double>> carries = {};    ///< each A that is predicted
};

CarryProducts carry_products(const std::vector<BlockPlacement>& placements, const MixDraw& draw,
                             const SilentBug* bug);

/// A_l … A_1 behind each sublayer, from what theory has of their numbers.
std::vector<std::vector<double>> products(const std::vector<theory::LaneNumbers>& numbers);

/// What a product of carries leaves of the differences between lanes: ‖C·P·C‖_F/√(n − 1), where
/// C = I − 11ᵀ/n takes away the mean of the lanes. 1 for the identity, 0 where the lanes become
/// one.
double difference_left(const std::vector<double>& matrix, std::size_t n);

/// The largest sum of the absolute values of a row or a column: how much the product amplifies a
/// stream, or a gradient, at most.
double largest_sum(const std::vector<double>& matrix, std::size_t n);

/// Why the placement has no such product; empty if it has.
std::string has_no_product(const std::vector<BlockPlacement>& placements);

/// What is known of every A of a stack.
enum class CarryKind {
  kNumbers,           ///< n × n learned numbers
  kDoublyStochastic,  ///< learned logits that a map makes so
  kIdentity,          ///< I, for ever
  kOther,
};
CarryKind carry_kind(const std::vector<BlockPlacement>& placements);

/// A stack as it may be behind its start: each learned number of A has moved by N(0, 0.1²); logits
/// are N(0, 1), and more for what a lane keeps of itself.
struct DrawnStack {
  std::vector<BlockPlacement> placements;
  double spread = 0;
};
DrawnStack drawn_stack(std::vector<BlockPlacement> placements);

}  // namespace addnorm::lab
