#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lab/figure.h"
#include "lab/stack_profile.h"

namespace addnorm::lab {

/// Returns an encoder as in the papers: Xavier's weights, d_ff = d_model, 32 tokens.
theory::WideStack wide_stack(std::vector<BlockPlacement> placements, std::size_t d_model);

/// The quantities by layer. For the first four, index l is the input of layer l, and the last index
/// is the output of the last layer.
enum class Quantity {
  kStreamPower,     ///< E[x²]
  kStreamRms,       ///< √E[x²]
  kGradientRms,     ///< root mean square of the loss's gradient
  kTokenCosine,     ///< the mean cosine of two tokens
  kSumPower,        ///< E[s²] of the sum in each layer's feed-forward
  kWeightGradient,  ///< √E‖∂loss/∂W‖² of each layer's second feed-forward weight
};

/// The layers that a claim is about.
enum class Reach { kEveryLayer, kLastLayer };

/// One stack, drawn with several seeds and, if its queries are 0, predicted. Tokens are N(0, 1),
/// and so is the gradient at its end.
class StackSample {
 public:
  /// Uses the seeds and the bug of the options.
  StackSample(const theory::WideStack& stack, const FigureOptions& options);

  std::size_t layers() const { return profiles_[0].down_gradient.size(); }
  const std::vector<StackProfile>& profiles() const { return profiles_; }
  const theory::StackMoments& theory() const { return theory_; }

  Series measured(Quantity quantity, std::string name) const;
  /// Returns the prediction within the factor, or within 2.5 without a skip: then the weights of
  /// all layers, and so their fluctuations, are multiplied. The tolerance of cosines is factor − 1.
  Series predicted(Quantity quantity, std::string name, double factor) const;
  /// Returns why theory has no prediction of the quantity; empty if it has one.
  Message unmet(Quantity quantity, Reach reach) const;

 private:
  theory::WideStack stack_;
  std::vector<StackProfile> profiles_;
  theory::StackMoments theory_;
};

/// Checks whether they agree, if the sample's theory predicts the quantity.
Check check_theory(Message claim, Message source, const StackSample& sample, Quantity quantity,
                   const Series& measured, const Series& predicted,
                   Reach reach = Reach::kEveryLayer);
/// Adds the measured and the predicted curve to the panel, and checks whether they agree.
Check add_curves(Panel& panel, const StackSample& sample, Quantity quantity,
                 const std::string& name, double factor);

}  // namespace addnorm::lab
