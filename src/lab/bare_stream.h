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

/// The random offset of each learned number of a mix: a normal deviate with this spread.
struct MixDraw {
  double spread = 0;
  std::uint64_t seed = 0;

  /// Adds the offsets to the learned numbers of a mix; `site` is the number of sublayers before it.
  /// Each mix has its own generator, so a mix that a bug removes does not change the others.
  void move(std::span<double> numbers, std::size_t site, MixUse mix) const;
};

/// The residual stream of a stack without its sublayers: each outputs given values and has no
/// gradient. So the measured stream runs the code that trains. In float64, without dropout.
class BareStream {
 public:
  explicit BareStream(const StackPlan& plan, const MixDraw& draw = {});

  std::size_t sublayers() const { return add_norms_.size(); }
  /// The learned numbers of each sublayer, then of the exit, for the predictions of theory.
  const std::vector<theory::LearnedNumbers>& learned() const { return learned_; }
  ParameterList<double> parameters();

  /// Returns the input of each sublayer, and last the end of the stream; sublayer l outputs
  /// branches[l].
  std::vector<Matrix<double>> forward(MatrixView<const double> x,
                                      const std::vector<Matrix<double>>& branches);
  /// Returns the gradient of forward's x through the residual path only.
  Matrix<double> backward(MatrixView<const double> d_end);

  /// Returns the lanes of one token, a row each, after each sublayer, if all sublayers output 0.
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
  Matrix<double> x_, end_;  // needed by backward
};

/// Orthogonal rows: each has two features of its own, v and −v, and so mean 0 and power 1. A norm
/// only divides a sum of them, so each row's share in the sum can be measured.
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

/// Returns the plan of a stream without sublayers, with the bug if there is one. ε is negligible.
StackPlan bare_plan(std::vector<BlockPlacement> placements, std::size_t d_model,
                    const SilentBug* bug);

}  // namespace addnorm::lab
