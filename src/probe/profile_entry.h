#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <string>

#include "addnorm/nn/probe.h"

/// A line of a profile: the statistics of the values at one site, and a record for each fit that
/// was made there. A plain number of a record is always known; an optional one may be unknown.

namespace addnorm::probe {

/// The input of a sublayer as a·s + b·h: s is the sum of the sublayer before it, and h the output
/// of that sublayer's norm. An input that is s itself has no fit. The fit also has a factor of that
/// sublayer's input, which is not kept.
struct InputFit {
  std::optional<double> from_left;       ///< a
  std::optional<double> from_left_norm;  ///< b
  /// RMS of the factors, one for each feature, that multiply s before the sublayer reads it.
  std::optional<double> stream_gain;
  /// 1: the lanes are copies of one row, though the sublayer before left several.
  std::optional<double> lanes_folded;
};

/// A residual sum by least squares over all values: s = from_x·x + from_before·h + from_branch·f. A
/// factor that the values do not determine is unknown.
struct SumFit {
  std::optional<double> from_x, from_before, from_branch;
  std::optional<double> from_earlier;  ///< factor of what the sublayer before read, in place of x
  std::optional<double> unexplained;   ///< ‖s − fit‖/‖s‖
  /// The gradients of both parts, known of PyTorch's models alone: ∂f = grad_to_branch·∂s, and ∂x =
  /// grad_to_x·∂s + what comes back through the modules that read x.
  std::optional<double> grad_to_x, grad_to_branch;
};

/// Lane i of a sum in a stream of several lanes: X′ = A·X + b ⊗ f by least squares in each token.
/// Numbers are means over tokens. Lane 0 also has the numbers of all lanes together.
struct LaneFit {
  double carry_in = 0;              ///< Σ_j A_ij: what lane i takes of all lanes
  double carry_size = 0;            ///< ‖A_i‖
  double lane_spread = 0;           ///< ‖lane − mean lane‖/‖lane‖
  std::optional<double> carry_out;  ///< Σ_j A_ji: what lane i gives to all lanes
  std::optional<double> write;      ///< b_i
  // The numbers of all lanes together.
  std::optional<double> write_gate;        ///< b over the output of its sigmoid: 2 in mHC
  std::optional<double> grad_spread;       ///< the lane_spread of the lanes' gradients
  std::optional<double> carry_transposed;  ///< 1: A is the transpose of the computed tensor
  /// The number of lanes that no lane after the site contains. Known where sublayers append lanes
  /// or add to the last one; then only the changed lanes have lines.
  std::optional<double> lanes_lost;
  std::optional<double> lanes_detached;  ///< lanes that are carried on without a gradient
  std::string coefficients;              ///< type in which A was computed, as PyTorch names it
};

/// The divisor of a norm's rows; u is the row's variance, or its mean square where the norm does
/// not centre. Numbers are means over rows; a spread is a standard deviation over rows.
struct DivisorFit {
  double divisor = 0;
  double deviation = 0;                               ///< √u
  double eps_in_variance = 0, variance_spread = 0;    ///< divisor² − u
  double eps_in_deviation = 0, deviation_spread = 0;  ///< divisor − √u
  double scale = 0, scale_spread = 0;                 ///< √u/divisor
  double noise = 0;             ///< share of divisor² that a line over u leaves
  std::optional<double> slope;  ///< slope of that line
};

/// The output of a norm by least squares in each row: y = Γ ⊙ (s − centre)/divisor + β.
struct NormFit {
  std::optional<double> unexplained;   ///< ‖y − fit‖/‖y‖
  std::optional<double> centred;       ///< centre over mean: 1 of LayerNorm, 0 of RMSNorm
  std::optional<double> gamma_offset;  ///< 0: Γ = γ, 1: Γ = 1 + γ
  std::optional<DivisorFit> divisor;
  /// The axes that share a mean, if they are not a row's: some of "sequences,tokens,features".
  std::string statistics_over;
  /// The statistic of a row whose power is the divisor, if that is not a deviation or an RMS:
  /// "deviation", "rms", "absolute_deviation" or "absolute_value".
  std::string statistic;
  std::optional<double> power;     ///< its exponent
  std::optional<double> vanished;  ///< 1: y is 0, and neither its rows nor γ are
  /// Mean and standard deviation of the factors, one for each feature, that a network computes for
  /// y.
  std::optional<double> modulation_mean, modulation_std;
  std::optional<double> past_norm;  ///< linear maps that read s, in a branch whose others read y
  // The norm's own code.
  std::string declared_norm;  ///< its kind: "rms"
  std::optional<double> declared_eps;
};

/// The values and gradients at one site. A statistic is NaN where it is unknown: values that are
/// not finite make it NaN as well.
struct ProfileEntry {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  std::size_t step = 0;
  Site site;
  double rms = kUnknown;           ///< √(mean of x²) over tokens and features
  double mean = kUnknown;          ///< mean of all values
  double std = kUnknown;           ///< standard deviation of all values
  double min = kUnknown;           ///< least value of a parameter
  double abs_max = kUnknown;       ///< largest |x|; infinite where a value was not finite
  double abs_median = kUnknown;    ///< median of |x|
  std::string dtype;               ///< type of the values, as PyTorch names it; "": unknown
  double peak_feature = kUnknown;  ///< feature of the largest |x|
  double peak_token = kUnknown;    ///< its token, counted in its sequence
  double grad_rms = kUnknown;      ///< RMS of the loss's gradient with respect to these values
  double token_cosine = kUnknown;  ///< mean cosine of two different tokens of one sequence
  double layer_cosine = kUnknown;  ///< cosine of what a layer reads and leaves, at its last point

  std::optional<double> entropy;       ///< mean over attention's queries: 1 for equal weights
  std::optional<double> reads_stream;  ///< 0: a norm may come before this head
  std::optional<double> gain_at_zero;  ///< 1: this branch is 0, as a norm of its layer has a γ of 0
  std::optional<InputFit> input;
  std::optional<SumFit> sum;
  std::optional<LaneFit> lane;
  std::optional<NormFit> norm;
};

}  // namespace addnorm::probe
