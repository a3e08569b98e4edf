#pragma once

#include <cstddef>
#include <vector>

#include "addnorm/nn/probe.h"
#include "doctor/subject.h"

namespace addnorm::doctor {

/// The numbers of one layer at a step; NaN if not measured.
struct LayerNumbers {
  std::size_t layer = 0;
  double stream = Subject::kUnknown;        ///< RMS of its input
  double attention = Subject::kUnknown;     ///< gain·f ÷ skip·x in its sum; unknown if learned
  double feed_forward = Subject::kUnknown;  ///< likewise
  double middle = Subject::kUnknown;        ///< RMS of the feed-forward's input
  double cosine = Subject::kUnknown;        ///< cosine of its input and its output
  double tokens = Subject::kUnknown;        ///< token similarity of its input
  double logits = Subject::kUnknown;        ///< largest logit of attention
  double entropy = Subject::kUnknown;       ///< of attention: 1 for equal weights
  double gradient = Subject::kUnknown;      ///< RMS of the input's gradient
};
std::vector<LayerNumbers> layer_numbers(const Subject& subject, std::size_t step);

/// Returns the RMS of γ, or of 1 + γ if that is the factor.
double gain(const Subject& subject, const ProfileEntry& gamma);

/// The gains of one norm by layer.
struct NormGains {
  Site site;  ///< of its first γ: sublayer, slot, and query or key
  std::vector<double> layer, gain;
};
std::vector<NormGains> norm_gains(const Subject& subject);

/// Returns the effective number of layers: (Σ θ)²/Σ θ² over the angles by which layers turn the
/// stream. It is the number of layers if all turn the stream equally, and 1 if only one layer turns
/// it. NaN if no cosine is known.
double effective_depth(const std::vector<LayerNumbers>& layers);

/// The range that theory predicts for a curve over layers, for the layers with a prediction.
struct Band {
  std::vector<double> layer, low, high;
};

/// Returns the band of the stream's RMS. In pre-norm, sandwich and reordered stacks, its lower end
/// assumes branches that are independent of the stream, E‖x + f‖² = E‖x‖² + E‖f‖². Its upper end
/// assumes branches that are all parallel to the stream. The branches' sizes are the measured ones,
/// but 1 after a norm before training (docs/theory.md, 8 and 9). In post-norm stacks the RMS is 1
/// before training.
Band stream_band(const Subject& subject, const std::vector<LayerNumbers>& layers);

/// Returns the band of the stream's gradient in pre-norm, sandwich and reordered stacks, before
/// training, beginning with the gradient of the last layer. Its lower end is the identity's part
/// alone (He et al. 2016). Its upper end assumes branches whose gradients are all parallel to the
/// stream's. Each has the size of a branch homogeneous in x: share times the gradient.
Band gradient_band(const Subject& subject, const std::vector<LayerNumbers>& layers);

}  // namespace addnorm::doctor
