#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lab/figure.h"
#include "lab/specimen.h"

namespace addnorm {

/// An encoder as the papers take it: Xavier's weights, d_ff = d_model, 32 tokens.
WideStack wide_stack(std::vector<BlockPlacement> placements, std::size_t d_model);

/// What is looked at by layer: at place l in what layer l reads, at the last in what the last layer
/// leaves.
enum class Quantity {
  kStreamPower,  ///< E[x²]
  kStreamRms,    ///< √E[x²]
  kGradientRms,  ///< the same of the loss's gradient
  kTokenCosine,  ///< the mean cosine of two tokens
};

/// One stack, drawn with several seeds and predicted. Tokens are N(0, 1), and so is the gradient
/// that goes in at the end.
class StackSample {
 public:
  /// Takes seeds, their number and the bug from the options.
  StackSample(const WideStack& stack, const FigureOptions& options);

  std::size_t layers() const { return theory_.down_gradient.size(); }
  const std::vector<Specimen>& specimens() const { return specimens_; }
  const StackMoments& theory() const { return theory_; }

  Curve measured(Quantity quantity, std::string name) const;
  /// Within the factor.
  Curve predicted(Quantity quantity, std::string name, double factor) const;

  /// √E‖∂loss/∂W‖² of the last layer's second feed-forward weight, of each seed and in theory.
  std::vector<double> last_weight_gradients() const;
  double predicted_last_weight_gradient() const;

 private:
  std::vector<Specimen> specimens_;
  StackMoments theory_;
};

/// Puts what was measured and what is predicted into the panel, and says whether they agree.
Check add_curves(Panel& panel, const StackSample& sample, Quantity quantity,
                 const std::string& name, double factor);

}  // namespace addnorm
