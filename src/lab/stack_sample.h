#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lab/figure.h"
#include "lab/specimen.h"

namespace addnorm::lab {

/// An encoder as the papers take it: Xavier's weights, d_ff = d_model, 32 tokens.
theory::WideStack wide_stack(std::vector<BlockPlacement> placements, std::size_t d_model);

/// What is looked at by layer. Of the first four, place l is what layer l reads, and one place more
/// is what the last layer leaves.
enum class Quantity {
  kStreamPower,     ///< E[x²]
  kStreamRms,       ///< √E[x²]
  kGradientRms,     ///< the same of the loss's gradient
  kTokenCosine,     ///< the mean cosine of two tokens
  kSumPower,        ///< E[s²] of the sum in each layer's feed-forward
  kWeightGradient,  ///< √E‖∂loss/∂W‖² of each layer's second feed-forward weight
};

/// Which layers a claim is about.
enum class Reach { kEveryLayer, kLastLayer };

/// One stack, drawn with several seeds and, where its queries are 0, predicted. Tokens are N(0, 1),
/// and so is the gradient that goes in at the end.
class StackSample {
 public:
  /// Takes seeds, their number and the bug from the options.
  StackSample(const theory::WideStack& stack, const FigureOptions& options);

  std::size_t layers() const { return specimens_[0].down_gradient.size(); }
  const std::vector<Specimen>& specimens() const { return specimens_; }
  const theory::StackMoments& theory() const { return theory_; }

  Series measured(Quantity quantity, std::string name) const;
  /// Within the factor, or one of 2.5 without a skip: then the weights of all layers are
  /// multiplied, and with them their fluctuations. Cosines give or take factor − 1.
  Series predicted(Quantity quantity, std::string name, double factor) const;
  /// Why theory says nothing of the quantity here; empty if it does.
  std::string unmet(Quantity quantity, Reach reach) const;

 private:
  theory::WideStack stack_;
  std::vector<Specimen> specimens_;
  theory::StackMoments theory_;
};

/// Whether they agree, where the sample's theory says something of the quantity.
Check check_theory(std::string claim, std::string source, const StackSample& sample,
                   Quantity quantity, const Series& measured, const Series& predicted,
                   Reach reach = Reach::kEveryLayer);
/// Puts what was measured and what is predicted into the panel, and says whether they agree.
Check add_curves(Panel& panel, const StackSample& sample, Quantity quantity,
                 const std::string& name, double factor);

}  // namespace addnorm::lab
