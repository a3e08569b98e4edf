#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "addnorm/matrix.h"
#include "addnorm/nn/add_norm.h"
#include "addnorm/nn/stream_ends.h"
#include "lab/silent_bug.h"
#include "theory/depth_mixing.h"

namespace addnorm::lab {

/// What is added to each learned number of a mix: a normal deviate of this spread.
struct MixDraw {
  double spread = 0;
  std::uint64_t seed = 0;
};

/// The residual stream of a stack without its sublayers: each gives values that it is told, and no
/// gradient. So the stream is measured by the code that trains. In float64, without dropout.
class BareStream {
 public:
  explicit BareStream(const StackPlan& plan, const MixDraw& draw = {});

  std::size_t sublayers() const { return add_norms_.size(); }
  /// Of each sublayer, then of the exit: what theory is to be told of what was drawn.
  const std::vector<theory::LearnedNumbers>& learned() const { return learned_; }
  ParameterList<double> parameters();

  /// What each sublayer reads, and last what the stream ends with; sublayer l gives branches[l].
  std::vector<Matrix<double>> forward(MatrixView<const double> x,
                                      const std::vector<Matrix<double>>& branches);
  /// The gradient of forward's x, by the way past all sublayers.
  Matrix<double> backward(MatrixView<const double> d_end);

  /// Lanes of one token, a row each, behind each sublayer, where all of these give 0.
  std::vector<Matrix<double>> carry(MatrixView<const double> lanes);

 private:
  void draw(const MixDraw& draw);
  Pass<double> pass(std::size_t rows);

  CarryUse carry_use_;
  StreamEnds<double> ends_;
  std::vector<AddNorm<double>> add_norms_;
  std::optional<Norm<double>> final_norm_;
  std::vector<theory::LearnedNumbers> learned_;
  Scratch<double> scratch_;
  Matrix<double> x_, end_;  // as backward needs them
};

/// Rows that have nothing in common: each has two features of its own, v and −v, and so mean 0 and
/// power 1. Norms only divide their sums, and how much of each row a sum holds can be told.
class Blocks {
 public:
  explicit Blocks(std::size_t count);

  std::size_t d_model() const { return 2 * count_; }
  Matrix<double> row(std::size_t block) const;
  std::vector<double> parts(std::span<const double> sum) const;  ///< of each block

 private:
  std::size_t count_;
  double value_;
};

/// The plan of a stream without sublayers, with the bug if there is one. ε is next to nothing.
StackPlan bare_plan(std::vector<BlockPlacement> placements, std::size_t d_model,
                    const SilentBug* bug);

}  // namespace addnorm::lab
