#pragma once

#include <string>
#include <vector>

#include "lab/bare_stream.h"
#include "lab/figure.h"
#include "theory/depth_mixing.h"

namespace addnorm::lab {

/// The products A_l … A_1 of carries in a stack of n lanes whose sublayers output 0. There is one
/// after each sublayer, n × n numbers row by row.
struct CarryProducts {
  std::size_t lanes = 0;
  std::vector<std::vector<double>> measured = {};  ///< measured with orthogonal blocks in the lanes
  std::vector<std::vector<double>> predicted = {};  ///< the product of the learned numbers
  std::vector<std::vector<double>> carries = {};    ///< each predicted A
};

CarryProducts carry_products(const std::vector<BlockPlacement>& placements, const MixDraw& draw,
                             const SilentBug* bug);

/// Returns A_l … A_1 after each sublayer, from the numbers that theory uses.
std::vector<std::vector<double>> products(const std::vector<theory::LaneNumbers>& numbers);

/// Returns the share of the differences between lanes that a product of carries preserves:
/// ‖C·P·C‖_F/√(n − 1), where C = I − 11ᵀ/n removes the mean of the lanes. It is 1 for the identity,
/// and 0 if all lanes become equal.
double difference_left(const std::vector<double>& matrix, std::size_t n);

/// Returns the largest sum of the absolute values of a row or a column: the largest amplification
/// of a stream or a gradient by the product.
double largest_sum(const std::vector<double>& matrix, std::size_t n);

/// Returns why the placement has no such product; empty if it has one.
Message has_no_product(const std::vector<BlockPlacement>& placements);

/// The constraint on every A of a stack.
enum class CarryKind {
  kNumbers,           ///< n × n learned numbers
  kDoublyStochastic,  ///< learned logits, mapped to a doubly stochastic matrix
  kIdentity,          ///< I, not learned
  kOther,
};
CarryKind carry_kind(const std::vector<BlockPlacement>& placements);

/// A stack as it may be after some training: each learned number of A has moved by N(0, 0.1²).
/// Logits are N(0, 1), plus a constant for a lane's own share.
struct DrawnStack {
  std::vector<BlockPlacement> placements;
  double spread = 0;
};
DrawnStack drawn_stack(std::vector<BlockPlacement> placements);

/// A number of the products after each sublayer, by seed and sublayer.
struct CarryDraws {
  std::vector<double> sublayers;  ///< counted from 1
  std::vector<std::vector<double>> measured, predicted;
  std::vector<CarryProducts> products;  ///< by seed
};
/// Draws the stack with each seed of the options; `number` is difference_left or largest_sum.
CarryDraws carry_draws(const DrawnStack& stack, const FigureOptions& options,
                       double (*number)(const std::vector<double>& matrix, std::size_t n));

}  // namespace addnorm::lab
