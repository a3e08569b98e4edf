#pragma once

#include <cstddef>
#include <vector>

#include "addnorm/nn/probe.h"
#include "doctor/subject.h"

namespace addnorm::doctor {

/// What one layer shows at a step, NaN where it was not measured.
struct LayerNumbers {
  std::size_t layer = 0;
  double stream = Subject::kUnknown;     ///< RMS of what it reads
  double attention = Subject::kUnknown;  ///< gain·f over skip·x in its sum; unknown where learned
  double feed_forward = Subject::kUnknown;  ///< likewise
  double middle = Subject::kUnknown;        ///< RMS of what the feed-forward reads
  double cosine = Subject::kUnknown;        ///< of what it reads and leaves
  double tokens = Subject::kUnknown;        ///< cosine of two tokens of what it reads
  double logits = Subject::kUnknown;        ///< largest of attention
  double entropy = Subject::kUnknown;       ///< of attention: 1 where it looks everywhere
  double gradient = Subject::kUnknown;      ///< RMS, of what it reads
};
std::vector<LayerNumbers> layer_numbers(const Subject& subject, std::size_t step);

/// The RMS of γ, or of 1 + γ where that is meant.
double gain(const Subject& subject, const ProfileEntry& gamma);

/// The gains of one norm by layer.
struct NormGains {
  Site site;  ///< of its first γ: sublayer, slot, and query or key
  std::vector<double> layer, gain;
};
std::vector<NormGains> norm_gains(const Subject& subject);

/// How many layers do the work: (Σ θ)²/Σ θ² over the angles by which layers turn the stream; all of
/// them where they turn it alike, 1 where one does everything. NaN where no cosine is known.
double effective_depth(const std::vector<LayerNumbers>& layers);

/// What theory says of a curve over layers, between `low` and `high`, where it says something.
struct Band {
  std::vector<double> layer, low, high;
};

/// Of the stream's RMS in pre-norm, sandwich and reordered stacks: from branches that are
/// independent of it, E‖x + f‖² = E‖x‖² + E‖f‖², to branches that all point its way. Their sizes
/// are those that were measured, but 1 behind a norm before training (theory.md, 8 and 9). In
/// post-norm stacks 1 before training.
Band stream_band(const Subject& subject, const std::vector<LayerNumbers>& layers);

/// Of its gradient in the first three, before training: the identity's part alone (He et al. 2016),
/// to branches whose gradients all point its way, each of the size that a branch homogeneous in x
/// has, share times the gradient. From the gradient of the last layer on.
Band gradient_band(const Subject& subject, const std::vector<LayerNumbers>& layers);

}  // namespace addnorm::doctor
