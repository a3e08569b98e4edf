#pragma once

#include <vector>

#include "doctor/layer_numbers.h"

/// Numbers of the doctor's reports that no rule uses: the gains of norms by layer, the effective
/// depth, and the bands that theory predicts.

namespace addnorm::report {

/// The gains of one norm by layer.
struct NormGains {
  Site site;  ///< of its first γ: sublayer, slot, and query or key
  std::vector<double> layer, gain;
};
std::vector<NormGains> norm_gains(const doctor::Subject& subject);

/// Returns the effective number of layers: (Σ θ)²/Σ θ² over the angles by which layers turn the
/// stream. It is the number of layers if all turn the stream equally, and 1 if only one layer turns
/// it. NaN if no cosine is known.
double effective_depth(const std::vector<doctor::LayerNumbers>& layers);

/// The range that theory predicts for a curve over layers, for the layers with a prediction.
struct Band {
  std::vector<double> layer, low, high;
};

/// Returns the band of the stream's RMS. In pre-norm, sandwich and reordered stacks, its lower end
/// assumes branches that are independent of the stream, E‖x + f‖² = E‖x‖² + E‖f‖². Its upper end
/// assumes branches that are all parallel to the stream. The branches' sizes are the measured ones,
/// but 1 after a norm before training (docs/theory.md, 8 and 9). In post-norm stacks the RMS is 1
/// before training.
Band stream_band(const doctor::Subject& subject, const std::vector<doctor::LayerNumbers>& layers);

/// Returns the band of the stream's gradient in pre-norm, sandwich and reordered stacks, before
/// training, beginning with the gradient of the last layer. Its lower end is the identity's part
/// alone (He et al. 2016). Its upper end assumes branches whose gradients are all parallel to the
/// stream's. Each has the size of a branch homogeneous in x: share times the gradient.
Band gradient_band(const doctor::Subject& subject, const std::vector<doctor::LayerNumbers>& layers);

}  // namespace addnorm::report
