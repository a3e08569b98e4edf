#pragma once

#include <cstddef>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "addnorm/matrix.h"
#include "addnorm/nn/probe.h"

namespace addnorm::probe {

/// What was measured of the values and gradients at one site; NaN is unknown.
struct ProfileEntry {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  std::size_t step = 0;
  Site site;
  double rms = kUnknown;      ///< √(mean of x²) over tokens and features
  double mean = kUnknown;     ///< of all values
  double std = kUnknown;      ///< of all values
  double min = kUnknown;      ///< least value, of parameters
  double abs_max = kUnknown;  ///< largest |x|; infinite where a value was not finite
  double abs_median = kUnknown;
  std::string dtype;               ///< of the values, as PyTorch names it; "": unknown
  double peak_feature = kUnknown;  ///< where abs_max is
  double peak_token = kUnknown;    ///< likewise, in its sequence
  double grad_rms = kUnknown;
  double token_cosine = kUnknown;  ///< mean cosine of two different tokens of one sequence
  double layer_cosine = kUnknown;  ///< of what a layer read and what it leaves, at its last point
  double entropy = kUnknown;       ///< of attention at kScores: 1 where all keys weigh the same

  // Of a sum, by least squares over all values: s = from_x·x + from_before·h + from_branch·f.
  double from_x = kUnknown;
  double from_before = kUnknown;
  double from_branch = kUnknown;
  /// Of what a sublayer reads, if that is a·s + b·h: s is what the sublayer before left, and h the
  /// output of its norm. Unknown where it reads s itself.
  double from_left = kUnknown;
  double from_left_norm = kUnknown;
  double from_earlier = kUnknown;  ///< of what the sublayer before read, where x has no part in it
  double unexplained = kUnknown;  ///< ‖s − fit‖/‖s‖; of a norm's output ‖y − fit‖/‖y‖
  // Likewise of its gradient, which comes to both: ∂f = grad_to_branch·∂s and ∂x = grad_to_x·∂s +
  // what comes back through the modules that read x. Of PyTorch's models alone.
  double grad_to_x = kUnknown;
  double grad_to_branch = kUnknown;

  // Of a lane of a sum, where the stream has several: X′ = A·X + b ⊗ f, by least squares in each
  // token. Means over tokens; what is of all lanes stands with the first.
  double carry_in = kUnknown;          ///< Σ_j A_ij: what lane i takes of all lanes
  double carry_out = kUnknown;         ///< Σ_i A_ij: what lane j gives to all
  double carry_size = kUnknown;        ///< ‖A_i‖
  double write = kUnknown;             ///< b_i
  double write_gate = kUnknown;        ///< b over the output of a sigmoid that made it: 2 of mHC
  double lane_spread = kUnknown;       ///< ‖lane − mean lane‖/‖lane‖
  double grad_spread = kUnknown;       ///< likewise of the lanes' gradients, of all of them
  double carry_transposed = kUnknown;  ///< 1: A is the transpose of the tensor that was computed
  std::string coefficients;            ///< type in which A was computed, as PyTorch names it
  // Of x: the lanes before are copies of one row, though the sublayer before had left several.
  double lanes_folded = kUnknown;

  // Of a norm's output, by least squares in each row: y = Γ ⊙ (s − centre)/divisor + β, with u the
  // row's variance, or its mean square where the norm does not centre.
  double reads_stream = kUnknown;  ///< of the head: 0 if a norm may stand before it
  std::string statistics_over;     ///< what shares a mean, if not a row: "tokens"
  std::string declared_norm;       ///< what its own code says of a norm: "rms"
  double declared_eps = kUnknown;  ///< and its ε
  std::string divides_by;          ///< a row's statistic that is neither deviation nor RMS
  double gain_at_zero = kUnknown;  ///< of a branch of zeros: 1 if a norm of its layer has a γ of 0
  double past_norm = kUnknown;     ///< linear maps that read s, of a branch whose others read y
  double gamma_offset = kUnknown;  ///< 0: Γ = γ, 1: Γ = 1 + γ
  double centred = kUnknown;       ///< centre ÷ mean: 1 of LayerNorm, 0 of RMSNorm
  double divisor = kUnknown;       ///< mean over rows
  double deviation = kUnknown;     ///< mean of √u
  double eps_in_variance = kUnknown;  ///< mean of divisor² − u, and its spread over rows
  double eps_in_variance_spread = kUnknown;
  double eps_in_deviation = kUnknown;  ///< mean of divisor − √u, and its spread
  double eps_in_deviation_spread = kUnknown;
  double scale = kUnknown;  ///< mean of √u/divisor, and its spread
  double scale_spread = kUnknown;
  double divisor_slope = kUnknown;  ///< of divisor² over u
  double divisor_noise = kUnknown;  ///< what that line leaves of divisor², as a share
};

/// Sums over values in parts, as attention reports its scores.
struct PartialSums {
  double count = 0, sum = 0, squares = 0, abs_max = 0;
  double rows = 0, entropy = 0;
};

/// Each adds to the one before: kTurns the layers' cosines, kFull attention's scores, medians and
/// peaks.
enum class Detail { kBrief, kTurns, kFull };

/// A probe that measures every site that it observes. Sums are in float64, in a fixed order.
template <typename T>
class Profiler : public Probe<T> {
 public:
  /// `length`: tokens of one sequence.
  explicit Profiler(std::size_t length, std::size_t step = 0, Detail detail = Detail::kBrief)
      : length_(length), step_(step), detail_(detail) {}

  void forward(const Site& site, MatrixView<const T> values) override;
  void backward(const Site& site, MatrixView<const T> gradients) override;

  bool wants_scores() const override { return detail_ == Detail::kFull; }

  /// In the order of the forward pass.
  const std::vector<ProfileEntry>& entries() const { return entries_; }

 private:
  void add_layer_cosine(const Site& site, MatrixView<const T> values);
  void add_detail(const Site& site, MatrixView<const T> values);
  void add_scores(const Site& site, MatrixView<const T> scores);
  ProfileEntry& entry(const Site& site);

  std::size_t length_;
  std::size_t step_;
  Detail detail_;
  std::map<std::size_t, PartialSums> score_sums_;  // by layer
  Matrix<T> layer_input_;                          // what the observed layer reads
  std::vector<ProfileEntry> entries_;
};

/// (|Σ u|² − n)/(n·(n − 1)) with u the unit vectors of a sequence's n tokens, averaged over the
/// sequences: 1 where all tokens point the same way (Dong et al. 2021 call that rank collapse).
template <typename T>
double mean_token_cosine(MatrixView<const T> tokens, std::size_t length);

/// The first entry at (layer, sublayer, point), or nullptr.
const ProfileEntry* find_entry(const std::vector<ProfileEntry>& profile, const Site& site);

/// Where the residual stream is at a place of a stack of `layers`: the first of these sites that
/// there is. What a stream of several lanes ends with is what the final norm reads; sublayers in
/// parallel have the attention's sites alone.
std::vector<Site> stream_sites(std::size_t place, std::size_t layers);

/// The residual stream at a place of a stack of `layers`: at place l what layer l reads, at place
/// `layers` what the last one leaves. Error if the profile lacks it.
const ProfileEntry& stream_entry(const std::vector<ProfileEntry>& profile, std::size_t place,
                                 std::size_t layers);

}  // namespace addnorm::probe
